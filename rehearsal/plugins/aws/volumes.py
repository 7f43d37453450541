"""EBS volumes."""

from collections.abc import Mapping
from typing import Any

from rehearsal.plugins.aws.ec2 import Ec2Kind
from rehearsal.plugins.aws.kind import pascal


class Volume(Ec2Kind):
    """An EBS volume."""

    token = "aws:ebs/volume:Volume"
    noun = "volume"
    supported_inputs = (
        "availabilityZone", "encrypted", "finalSnapshot", "iops", "kmsKeyId", "size", "throughput",
        "type", "tags",
    )  # fmt: skip
    sent = ("availabilityZone", "encrypted", "iops", "kmsKeyId", "size", "throughput")
    outputs = {  # noqa: RUF012
        "availabilityZone": "AvailabilityZone",
        "createTime": "to_string(CreateTime)",
        "encrypted": "Encrypted",
        "iops": "Iops",
        "kmsKeyId": "KmsKeyId",
        "size": "Size",
        "snapshotId": "SnapshotId",
        "throughput": "Throughput",
        "type": "VolumeType",
    }

    def create(self, inputs: dict[str, Any]) -> str:
        request = {pascal(name): inputs[name] for name in self.sent if name in inputs}
        kind = {"VolumeType": inputs["type"]} if "type" in inputs else {}
        answer = self.ec2.create_volume(**request, **kind, **self.specification(inputs))
        return str(answer["VolumeId"])

    def read(self, identity: str, state: Mapping[str, Any]) -> dict[str, Any]:
        now = super().read(identity, state)
        return now | {
            "arn": self.arn("volume", identity, now),
            "finalSnapshot": state.get("finalSnapshot", False),
        }

    def update(self, identity: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        names = {"size": "Size", "iops": "Iops", "throughput": "Throughput", "type": "VolumeType"}
        changed = {
            api: new[name] for name, api in names.items()
            if name in new and new[name] != old.get(name)
        }  # fmt: skip
        if changed:
            self.ec2.modify_volume(VolumeId=identity, **changed)
