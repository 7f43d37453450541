"""Launch templates: every change is a new version."""

from collections.abc import Mapping
from typing import Any

from rehearsal.plugins.aws.api_request import request
from rehearsal.plugins.aws.ec2 import Ec2Kind

_NOT_DATA = ("name", "description", "tags", "tagsAll", "updateDefaultVersion", "defaultVersion")
_RENAMED = {
    "vpcSecurityGroupIds": "SecurityGroupIds",
    "networkInterfaces[].securityGroups": "Groups",
    "iamInstanceProfile.arn": "Arn",
}


class LaunchTemplate(Ec2Kind):
    """A launch template; an update of its data makes a new version."""

    token = "aws:ec2/launchTemplate:LaunchTemplate"
    noun = "launch_template"
    supported_inputs = (
        "name", "description", "tags", "updateDefaultVersion", "defaultVersion",
        "blockDeviceMappings", "capacityReservationSpecification", "ebsOptimized", "imageId",
        "instanceMarketOptions", "instanceType", "metadataOptions", "monitoring",
        "networkInterfaces", "placement", "tagSpecifications", "userData", "vpcSecurityGroupIds",
        "keyName", "cpuOptions", "iamInstanceProfile", "privateDnsNameOptions",
    )  # fmt: skip
    outputs = {  # noqa: RUF012
        "name": "LaunchTemplateName",
        "defaultVersion": "DefaultVersionNumber",
        "latestVersion": "LatestVersionNumber",
    }

    def create(self, inputs: dict[str, Any]) -> str:
        answer = self.ec2.create_launch_template(
            LaunchTemplateName=inputs["name"],
            **self._version(inputs),
            **self.specification(inputs),
        )
        return str(answer["LaunchTemplate"]["LaunchTemplateId"])

    def _version(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        model = self.ec2.meta.service_model.operation_model("CreateLaunchTemplate").input_shape
        data = {
            name: value
            for name, value in inputs.items()
            if name not in _NOT_DATA and name in self.supported_inputs
        }
        described = inputs.get("description")
        return {
            "LaunchTemplateData": request(model.members["LaunchTemplateData"], data, _RENAMED),
            **({"VersionDescription": described} if described else {}),
        }

    def read(self, identity: str, state: Mapping[str, Any]) -> dict[str, Any]:
        now = super().read(identity, state)
        return now | {"arn": self.arn("launch-template", identity, now)}

    def _renewed(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
        """Whether the update makes a new version: tags and the choice of a default do not."""
        return any(
            old.get(name) != new.get(name)
            for name in self.supported_inputs
            if name not in _NOT_DATA or name == "description"
        )

    def recomputed(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, ...]:
        if not self._renewed(old, new):
            return ()
        return ("latestVersion", "defaultVersion") if new.get("updateDefaultVersion") else (
            "latestVersion",
        )  # fmt: skip

    def update(self, identity: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        if self._renewed(old, new):
            self.ec2.create_launch_template_version(LaunchTemplateId=identity, **self._version(new))
        latest = str(self.row(identity)["LatestVersionNumber"])
        default = latest if new.get("updateDefaultVersion") else str(new.get("defaultVersion", 1))
        self.ec2.modify_launch_template(LaunchTemplateId=identity, DefaultVersion=default)
