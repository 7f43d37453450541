"""KMS keys, aliases and CloudWatch log groups, as far as their rows do not describe them."""

from collections.abc import Mapping
from typing import Any

from gpu_cluster.rehearsal.plugins.aws.rowed import Rowed


class Key(Rowed):
    """A KMS key, whose switches are separate calls; a delete only schedules its deletion."""

    token = "aws:kms/key:Key"

    def create(self, inputs: dict[str, Any]) -> str:
        identity = super().create(inputs)
        self._switch(identity, {"isEnabled": True}, inputs)
        return identity

    def update(self, identity: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        self._switch(identity, old, new)
        super().update(identity, old, new)

    def _switch(self, identity: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        kms = self.client
        names = ("enableKeyRotation", "rotationPeriodInDays")
        if any(old.get(name) != new.get(name) for name in names):
            if new.get("enableKeyRotation"):
                days = new.get("rotationPeriodInDays") or 365
                kms.enable_key_rotation(KeyId=identity, RotationPeriodInDays=days)
            else:
                kms.disable_key_rotation(KeyId=identity)
        if old.get("isEnabled") != new.get("isEnabled"):
            call = kms.enable_key if new.get("isEnabled") else kms.disable_key
            call(KeyId=identity)

    def delete(self, identity: str, state: dict[str, Any]) -> None:
        window = state.get("deletionWindowInDays") or 30
        super().delete(identity, state | {"deletionWindowInDays": window})


class Alias(Rowed):
    """An alias of a KMS key."""

    token = "aws:kms/alias:Alias"

    def read(self, identity: str, state: Mapping[str, Any]) -> dict[str, Any]:
        now = super().read(identity, state)
        target = state.get("targetKeyId")
        same = target in (now["targetKeyId"], now["targetKeyArn"])
        return now | ({"targetKeyId": target} if same else {})

    def same(self, path: str, old: Any, new: Any) -> bool:
        def key(value: Any) -> str:
            return str(value).rpartition("/")[2]

        return path == "targetKeyId" and key(old) == key(new)


class LogGroup(Rowed):
    """A CloudWatch log group."""

    token = "aws:cloudwatch/logGroup:LogGroup"

    def delete(self, identity: str, state: dict[str, Any]) -> None:
        if not state.get("skipDestroy"):
            super().delete(identity, state)
