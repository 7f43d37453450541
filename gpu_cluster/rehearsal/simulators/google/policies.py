"""The IAM policies of projects, service accounts and buckets."""

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from gpu_cluster.rehearsal.simulators.google.api.call import Call
from gpu_cluster.rehearsal.simulators.google.errors import ApiError, bad_request
from gpu_cluster.rehearsal.simulators.google.state import CloudState

_MEMBER = re.compile(
    r"(user|group|serviceAccount|domain|projectOwner|projectEditor|projectViewer|deleted:\w+):.+"
    r"|principal(Set)?://.+|allUsers|allAuthenticatedUsers"
)
_ROLE = re.compile(r"(roles/|(projects|organizations)/[^/]+/roles/)[A-Za-z0-9_.]+")


def get(call: Call) -> dict[str, Any]:
    """Returns the policy of the call's resource, with an etag."""
    policy = dict(call.cloud.policies.get(call.name, {"version": 1}))
    return policy | {"etag": _etag(policy)}


def set_(call: Call) -> dict[str, Any]:
    """Sets a policy; refuses a stale one, and a role or member that does not exist."""
    return change(call, call.body.get("policy", {}), 409)


def change(call: Call, policy: Mapping[str, Any], stale: int) -> dict[str, Any]:
    """`stale`: the error code for a policy that was read before the last change."""
    wanted = dict(policy)
    before = get(call)
    if wanted.pop("etag", before["etag"]) != before["etag"]:
        raise ApiError(
            stale,
            "There were concurrent policy changes. Please retry the whole read-modify-write with "
            "exponential backoff.",
            reason="aborted" if stale == 409 else "",
            status="ABORTED" if stale == 409 else "",
        )
    known = {member for binding in before.get("bindings", ()) for member in binding["members"]}
    bindings = []
    for binding in wanted.get("bindings", ()):
        if not _ROLE.fullmatch(binding.get("role", "")):
            raise bad_request(f"Invalid role name: {binding.get('role')}")
        for member in binding.get("members", ()):
            if not _MEMBER.fullmatch(member):
                raise bad_request(f"Invalid member: {member}")
            if member not in known:
                call.cloud.check_member(member, call.name.split("/")[1])
        if binding.get("members"):
            bindings.append(binding | {"members": sorted(set(binding["members"]))})
    conditions = any("condition" in row for row in bindings)
    if conditions and wanted.get("version", 1) < 3:
        raise bad_request("Conditions need a policy of version 3")
    call.cloud.policies[call.name] = {
        "version": 3 if conditions else 1,
        **({"bindings": bindings} if bindings else {}),
    }
    return get(call)


def _etag(policy: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(policy, sort_keys=True).encode()).digest()
    return base64.b64encode(b"\x07" + digest[:7]).decode()


def forget_account(cloud: CloudState, email: str, number: str) -> None:
    """Marks the roles of a deleted account: they remain, without an account."""
    gone, mark = f"serviceAccount:{email}", f"deleted:serviceAccount:{email}?uid={number}"
    for policy in cloud.policies.values():
        for binding in policy.get("bindings", ()):
            binding["members"] = [mark if name == gone else name for name in binding["members"]]


_OWNERS = {"/serviceAccounts/": " of a service account", "/b/": " of a bucket"}


def binding_lines(cloud: CloudState) -> Iterator[str]:
    """One line for each role of each member."""
    for name, policy in cloud.policies.items():
        word = "IAM binding" + next((of for part, of in _OWNERS.items() if part in f"/{name}"), "")
        for binding in policy.get("bindings", ()):
            for member in binding["members"]:
                yield f"{word} {name}/{binding['role']}/{member}"
