"""KMS keys and aliases, and CloudWatch log groups."""

from collections.abc import Mapping
from typing import Any

from rehearsal.plugins.aws.iam import document_text
from rehearsal.plugins.aws.kind import Kind, NotFoundError


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


class Alias(Kind):
    """A name of a KMS key."""

    token = "aws:kms/alias:Alias"
    supported_inputs = ("name", "targetKeyId")

    def create(self, inputs: dict[str, Any]) -> str:
        name = _alias_name(inputs["name"])
        self.api.client("kms").create_alias(AliasName=name, TargetKeyId=inputs["targetKeyId"])
        return name

    def read(self, identity: str, state: Mapping[str, Any]) -> dict[str, Any]:
        kms = self.api.client("kms")
        for row in kms.list_aliases()["Aliases"]:
            if row["AliasName"] == identity:
                key = kms.describe_key(KeyId=row["TargetKeyId"])["KeyMetadata"]
                target = state.get("targetKeyId")
                same = target in (key["KeyId"], key["Arn"])
                return {
                    "name": state.get("name", identity),
                    "arn": row["AliasArn"],
                    "targetKeyId": target if same else key["KeyId"],
                    "targetKeyArn": key["Arn"],
                }
        raise NotFoundError(f"NotFoundException: Alias {identity} is not found")

    def same(self, path: str, old: Any, new: Any) -> bool:
        def key(value: Any) -> str:
            return str(value).rpartition("/")[2]

        return path == "targetKeyId" and key(old) == key(new)

    def update(self, identity: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        kms = self.api.client("kms")
        kms.update_alias(AliasName=identity, TargetKeyId=new["targetKeyId"])

    def delete(self, identity: str, state: dict[str, Any]) -> None:
        self.api.client("kms").delete_alias(AliasName=identity)


def _alias_name(name: str) -> str:
    return name if name.startswith("alias/") else f"alias/{name}"


class LogGroup(Kind):
    """A log group of CloudWatch."""

    token = "aws:cloudwatch/logGroup:LogGroup"
    supported_inputs = (
        "name",
        "retentionInDays",
        "kmsKeyId",
        "logGroupClass",
        "skipDestroy",
        "tags",
    )

    @property
    def logs(self) -> Any:
        """A client of CloudWatch Logs."""
        return self.api.client("logs")

    def create(self, inputs: dict[str, Any]) -> str:
        name, key = inputs["name"], inputs.get("kmsKeyId")
        given = {"kmsKeyId": key} if key else {}
        if inputs.get("logGroupClass"):
            given["logGroupClass"] = inputs["logGroupClass"]
        self.logs.create_log_group(logGroupName=name, tags=inputs["tagsAll"], **given)
        self._retain(name, inputs)
        return str(name)

    def _retain(self, name: str, inputs: Mapping[str, Any]) -> None:
        if inputs.get("retentionInDays"):
            self.logs.put_retention_policy(
                logGroupName=name, retentionInDays=inputs["retentionInDays"]
            )

    def row(self, identity: str) -> dict[str, Any]:
        """The group as the API has it; raises NotFoundError."""
        answer = self.logs.describe_log_groups(logGroupNamePrefix=identity)
        for row in answer["logGroups"]:
            if row["logGroupName"] == identity:
                return dict(row)
        raise NotFoundError(f"ResourceNotFoundException: log group {identity} does not exist")

    def read(self, identity: str, state: Mapping[str, Any]) -> dict[str, Any]:
        row = self.row(identity)
        arn = row["arn"].removesuffix(":*")
        return {
            "arn": arn,
            "name": identity,
            "retentionInDays": row.get("retentionInDays", 0),
            "kmsKeyId": row.get("kmsKeyId"),
            "logGroupClass": row.get("logGroupClass", "STANDARD"),
            "tagsAll": self.logs.list_tags_for_resource(resourceArn=arn)["tags"],
        }

    def update(self, identity: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        if old.get("retentionInDays") != new.get("retentionInDays"):
            if new.get("retentionInDays"):
                self._retain(identity, new)
            else:
                self.logs.delete_retention_policy(logGroupName=identity)
        key = new.get("kmsKeyId")
        if old.get("kmsKeyId") != key:
            if key:
                self.logs.associate_kms_key(logGroupName=identity, kmsKeyId=key)
            else:
                self.logs.disassociate_kms_key(logGroupName=identity)

    def set_tags(
        self, identity: str, state: Mapping[str, Any], tags: Mapping[str, str], gone: list[str]
    ) -> None:
        arn = self.row(identity)["arn"].removesuffix(":*")
        if gone:
            self.logs.untag_resource(resourceArn=arn, tagKeys=gone)
        self.logs.tag_resource(resourceArn=arn, tags=dict(tags))

    def delete(self, identity: str, state: dict[str, Any]) -> None:
        if state.get("skipDestroy"):
            return
        self.logs.delete_log_group(logGroupName=identity)
