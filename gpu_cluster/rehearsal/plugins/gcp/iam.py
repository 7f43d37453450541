"""How the provider creates and changes service accounts."""

import re
from collections.abc import Mapping
from typing import Any

from gpu_cluster.rehearsal.plugins.cloud.handler import CloudError, Config
from gpu_cluster.rehearsal.plugins.cloud.schema import UNKNOWN, Problem
from gpu_cluster.rehearsal.plugins.gcp.resource import Resource


class Account(Resource):
    """A service account."""

    token = "gcp:serviceaccount/account:Account"

    def validate_preview(self, config: Config, inputs: Mapping[str, Any]) -> list[Problem]:
        name = str(inputs.get("accountId", UNKNOWN))
        if name == UNKNOWN or re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name):
            return []
        return [
            Problem(
                "accountId",
                f"'accountId' ('{name}') must be a-z, 0-9 and hyphens, from a letter to a letter "
                "or digit",
            )
        ]

    def insert(self, inputs: Mapping[str, Any]) -> str:
        body = {"accountId": inputs["accountId"], "serviceAccount": self.expand(inputs)}
        identity = self.identity(inputs)
        try:
            self.client.call(self.row.service, "POST", self.row.place.format_map(inputs), body)
        except CloudError as error:
            if not (inputs.get("createIgnoreAlreadyExists") and "Error 409" in str(error)):
                raise
        if inputs.get("disabled"):
            self.client.call(self.row.service, "POST", f"{identity}:disable", {})
        return identity

    def flatten(self, body: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
        email = body["email"]
        return super().flatten(body, known) | {
            "accountId": email.partition("@")[0],
            "member": f"serviceAccount:{email}",
            "disabled": body.get("disabled", False),
        }

    def change(self, identity: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        fields = {"description": "description", "displayName": "display_name"}
        changed = [name for name in fields if (old.get(name) or "") != (new.get(name) or "")]
        if changed:
            now = self.get(identity)
            account = {"etag": now["etag"]} | {n: new[n] for n in changed if new.get(n)}
            mask = ",".join(fields[name] for name in changed)
            body = {"serviceAccount": account, "updateMask": mask}
            self.client.call(self.row.service, "PATCH", identity, body)
        if bool(old.get("disabled")) != bool(new.get("disabled")):
            verb = "disable" if new.get("disabled") else "enable"
            self.client.call(self.row.service, "POST", f"{identity}:{verb}", {})
