"""IAM policies, managed and inline, and what attaches them to roles."""

from collections.abc import Mapping
from typing import Any

from rehearsal.plugins.aws.documents import document_text
from rehearsal.plugins.aws.iam import IamKind
from rehearsal.plugins.aws.kind import mapping, pairs, pick


class Policy(IamKind):
    """A managed policy of the account."""

    token = "aws:iam/policy:Policy"
    documents = ("policy",)
    supported_inputs = ("name", "path", "policy", "description", "tags")

    def create(self, inputs: dict[str, Any]) -> str:
        answer = self.iam.create_policy(
            PolicyName=inputs["name"],
            Path=inputs["path"],
            PolicyDocument=inputs["policy"],
            Description=inputs.get("description", ""),
            Tags=pairs(inputs["tagsAll"]),
        )
        return str(answer["Policy"]["Arn"])

    def read(self, identity: str, state: Mapping[str, Any]) -> dict[str, Any]:
        row = self.iam.get_policy(PolicyArn=identity)["Policy"]
        version = self.iam.get_policy_version(
            PolicyArn=identity, VersionId=row["DefaultVersionId"]
        )["PolicyVersion"]
        now = pick(row, {
            "arn": "Arn",
            "name": "PolicyName",
            "path": "Path",
            "policyId": "PolicyId",
            "attachmentCount": "AttachmentCount",
        })  # fmt: skip
        tags = self.iam.list_policy_tags(PolicyArn=identity)["Tags"]
        return now | {
            "policy": document_text(version["Document"], state.get("policy")),
            "tagsAll": mapping(tags),
        }

    def update(self, identity: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        if old.get("policy") != new["policy"]:
            versions = self.iam.list_policy_versions(PolicyArn=identity)["Versions"]
            spare = [each for each in versions if not each["IsDefaultVersion"]]
            if len(versions) >= 5:
                oldest = min(spare, key=lambda each: int(each["VersionId"].removeprefix("v")))
                self.iam.delete_policy_version(PolicyArn=identity, VersionId=oldest["VersionId"])
            self.iam.create_policy_version(
                PolicyArn=identity, PolicyDocument=new["policy"], SetAsDefault=True
            )

    def set_tags(
        self, identity: str, state: Mapping[str, Any], tags: Mapping[str, str], gone: list[str]
    ) -> None:
        if gone:
            self.iam.untag_policy(PolicyArn=identity, TagKeys=gone)
        self.iam.tag_policy(PolicyArn=identity, Tags=pairs(tags))

    def delete(self, identity: str, state: dict[str, Any]) -> None:
        for each in self.iam.list_policy_versions(PolicyArn=identity)["Versions"]:
            if not each["IsDefaultVersion"]:
                self.iam.delete_policy_version(PolicyArn=identity, VersionId=each["VersionId"])
        self.iam.delete_policy(PolicyArn=identity)
