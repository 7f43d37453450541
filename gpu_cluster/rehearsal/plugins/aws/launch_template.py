"""Launch templates, as far as their row does not describe them: every change is a new version."""

from collections.abc import Mapping
from typing import Any

from gpu_cluster.rehearsal.plugins.aws.rowed import Rowed


class LaunchTemplate(Rowed):
    """A launch template; an update of its data creates a new version."""

    token = "aws:ec2/launchTemplate:LaunchTemplate"

    def recomputed(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, ...]:
        (step,) = self.row.update
        if not self.differing(step, old, new):
            return ()
        return ("latestVersion", "defaultVersion") if new.get("updateDefaultVersion") else (
            "latestVersion",
        )  # fmt: skip

    def update(self, identity: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        super().update(identity, old, new)
        latest = str(self.described(identity, new)["LatestVersionNumber"])
        default = latest if new.get("updateDefaultVersion") else str(new.get("defaultVersion", 1))
        self.client.modify_launch_template(LaunchTemplateId=identity, DefaultVersion=default)
