"""KMS keys and aliases, and CloudWatch log groups."""

from collections.abc import Mapping
from typing import Any

from rehearsal.plugins.aws.documents import document_text
from rehearsal.plugins.aws.kind import Kind, NotFoundError
from rehearsal.plugins.aws.rowed import Rowed


class Key(Kind):
    """A KMS key. A delete schedules its deletion."""

    token = "aws:kms/key:Key"
    documents = ("policy",)
    supported_inputs = (
        "description", "policy", "enableKeyRotation", "rotationPeriodInDays", "isEnabled",
        "keyUsage", "customerMasterKeySpec", "deletionWindowInDays", "multiRegion",
        "bypassPolicyLockoutSafetyCheck", "tags",
    )  # fmt: skip

    @property
    def kms(self) -> Any:
        """A client of KMS."""
        return self.api.client("kms")

    def create(self, inputs: dict[str, Any]) -> str:
        given = {"Policy": inputs["policy"]} if "policy" in inputs else {}
        answer = self.kms.create_key(
            Description=inputs.get("description", ""),
            KeyUsage=inputs["keyUsage"],
            KeySpec=inputs["customerMasterKeySpec"],
            MultiRegion=bool(inputs.get("multiRegion")),
            Tags=_key_tags(inputs["tagsAll"]),
            **given,
        )
        identity: str = answer["KeyMetadata"]["KeyId"]
        self._switch(identity, {"isEnabled": True}, inputs)
        return identity

    def _switch(self, identity: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        names = ("enableKeyRotation", "rotationPeriodInDays")
        if any(old.get(name) != new.get(name) for name in names):
            if new.get("enableKeyRotation"):
                days = new.get("rotationPeriodInDays") or 365
                self.kms.enable_key_rotation(KeyId=identity, RotationPeriodInDays=days)
            else:
                self.kms.disable_key_rotation(KeyId=identity)
        if old.get("isEnabled") != new.get("isEnabled"):
            call = self.kms.enable_key if new.get("isEnabled") else self.kms.disable_key
            call(KeyId=identity)

    def read(self, identity: str, state: Mapping[str, Any]) -> dict[str, Any]:
        row = self.kms.describe_key(KeyId=identity)["KeyMetadata"]
        if row["KeyState"] == "PendingDeletion":
            raise NotFoundError(f"NotFoundException: key {identity} is pending deletion")
        tags = self.kms.list_resource_tags(KeyId=identity)["Tags"]
        policy = self.kms.get_key_policy(KeyId=identity, PolicyName="default")["Policy"]
        return {
            "arn": row["Arn"],
            "keyId": row["KeyId"],
            "description": row["Description"],
            "isEnabled": row["Enabled"],
            "enableKeyRotation": self.kms.get_key_rotation_status(KeyId=identity)[
                "KeyRotationEnabled"
            ],
            "multiRegion": False,
            "policy": document_text(policy, state.get("policy")),
            "tagsAll": {tag["TagKey"]: tag["TagValue"] for tag in tags},
        }

    def update(self, identity: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        self._switch(identity, old, new)
        if "description" in new and old.get("description") != new["description"]:
            self.kms.update_key_description(KeyId=identity, Description=new["description"])
        if "policy" in new and old.get("policy") != new["policy"]:
            self.kms.put_key_policy(KeyId=identity, PolicyName="default", Policy=new["policy"])

    def set_tags(
        self, identity: str, state: Mapping[str, Any], tags: Mapping[str, str], gone: list[str]
    ) -> None:
        if gone:
            self.kms.untag_resource(KeyId=identity, TagKeys=gone)
        self.kms.tag_resource(KeyId=identity, Tags=_key_tags(tags))

    def delete(self, identity: str, state: dict[str, Any]) -> None:
        window = state.get("deletionWindowInDays") or 30
        self.kms.schedule_key_deletion(KeyId=identity, PendingWindowInDays=window)


def _key_tags(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"TagKey": key, "TagValue": value} for key, value in tags.items()]


class Alias(Rowed):
    """A name of a KMS key."""

    token = "aws:kms/alias:Alias"

    def create(self, inputs: dict[str, Any]) -> str:
        name = str(inputs["name"]).removeprefix("alias/")  # of a generated one it is added
        return super().create(inputs | {"name": f"alias/{name}"})

    def read(self, identity: str, state: Mapping[str, Any]) -> dict[str, Any]:
        now = super().read(identity, state) | {"name": state.get("name", identity)}
        target = state.get("targetKeyId")
        same = target in (now["targetKeyId"], now["targetKeyArn"])
        return now | ({"targetKeyId": target} if same else {})

    def same(self, path: str, old: Any, new: Any) -> bool:
        def key(value: Any) -> str:
            return str(value).rpartition("/")[2]

        return path == "targetKeyId" and key(old) == key(new)


class LogGroup(Rowed):
    """A log group of CloudWatch."""

    token = "aws:cloudwatch/logGroup:LogGroup"

    def delete(self, identity: str, state: dict[str, Any]) -> None:
        if not state.get("skipDestroy"):
            super().delete(identity, state)
