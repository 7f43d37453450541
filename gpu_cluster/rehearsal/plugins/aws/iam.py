"""IAM roles, policies and instance profiles, as far as their rows do not describe them."""

from typing import Any

from gpu_cluster.rehearsal.plugins.aws.rowed import Rowed

_VERSIONS = 5
"""The most versions that a policy may have."""


class Role(Rowed):
    """An IAM role; its policies may be detached when it is deleted."""

    token = "aws:iam/role:Role"

    def delete(self, identity: str, state: dict[str, Any]) -> None:
        if state.get("forceDetachPolicies"):
            iam = self.client
            for policy in iam.list_attached_role_policies(RoleName=identity)["AttachedPolicies"]:
                iam.detach_role_policy(RoleName=identity, PolicyArn=policy["PolicyArn"])
            for name in iam.list_role_policies(RoleName=identity)["PolicyNames"]:
                iam.delete_role_policy(RoleName=identity, PolicyName=name)
        super().delete(identity, state)


class Policy(Rowed):
    """A managed policy of the account; a sixth version replaces the oldest one."""

    token = "aws:iam/policy:Policy"

    def _spare(self, identity: str) -> list[str]:
        """The unused versions, oldest first."""
        versions = self.client.list_policy_versions(PolicyArn=identity)["Versions"]
        ids = [version["VersionId"] for version in versions if not version["IsDefaultVersion"]]
        return sorted(ids, key=lambda version: int(version.removeprefix("v")))

    def update(self, identity: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        spare = self._spare(identity)
        if old.get("policy") != new["policy"] and len(spare) + 1 >= _VERSIONS:
            self.client.delete_policy_version(PolicyArn=identity, VersionId=spare[0])
        super().update(identity, old, new)

    def delete(self, identity: str, state: dict[str, Any]) -> None:
        for version in self._spare(identity):
            self.client.delete_policy_version(PolicyArn=identity, VersionId=version)
        super().delete(identity, state)


class InstanceProfile(Rowed):
    """An instance profile, which has at most one role and cannot be deleted while it has one."""

    token = "aws:iam/instanceProfile:InstanceProfile"

    def update(self, identity: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        if old.get("role") and old["role"] != new.get("role"):
            self._take_off(identity, old["role"])
            old = {key: value for key, value in old.items() if key != "role"}
        super().update(identity, old, new)

    def delete(self, identity: str, state: dict[str, Any]) -> None:
        if state.get("role"):
            self._take_off(identity, state["role"])
        super().delete(identity, state)

    def _take_off(self, identity: str, role: str) -> None:
        self.client.remove_role_from_instance_profile(InstanceProfileName=identity, RoleName=role)
