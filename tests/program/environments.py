"""The committed environments, as the engine passes their config to the program."""

import copy
import json
import re
import runpy
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.components.platforms import WRITTEN
from gpu_cluster.stacks.definition.files import EXAMPLES, SAMPLES
from quality.platforms import OUTPUTS
from tests.components.recording import Recording, record

ROOT = Path(__file__).parents[2]
STACKS = SAMPLES
ANSWERS: dict[str, Any] = {
    **OUTPUTS,
    "aws:iam/role:Role": {"arn": "arn:aws:iam::123456789012:role/{name}"},
    "aws:kms/key:Key": {
        "arn": "arn:aws:kms:us-east-1:123456789012:key/{name}", "keyId": "{name}"},
    "aws:sqs/queue:Queue": {
        "arn": "arn:aws:sqs:us-east-1:123456789012:{name}",
        "url": "https://sqs.us-east-1.amazonaws.com/123456789012/{name}",
    },
    "aws:cloudwatch/eventRule:EventRule": {
        "arn": "arn:aws:events:us-east-1:123456789012:rule/{name}"},
    "gcp:compute/router:Router": {"name": "{name}"},
    "gcp:serviceaccount/account:Account": {
        "member": "serviceAccount:{name}@b.c", "email": "{name}@b.c"},
}  # fmt: skip
"""Type token -> what a cloud answers beyond the inputs, as `record` takes it."""


def values_of(stack: str) -> dict[str, Any]:
    """The stack file's config, as YAML has it; the caller's own."""
    return copy.deepcopy(_values_of(stack))


@cache
def _values_of(stack: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((EXAMPLES / f"Pulumi.{stack}.yaml").read_text())
    config: dict[str, Any] = document["config"]
    return config


def with_changes(values: Mapping[str, Any], changes: list[list[Any]]) -> dict[str, Any]:
    """A copy after changes, each `[path..., value]`; "absent" removes the key, and None one that
    may be there."""
    changed = copy.deepcopy(dict(values))
    for *path, last, value in changes:
        place = changed
        for key in path:
            place = place[key]
        if value == "absent":
            del place[last]
        elif value is None:
            place.pop(last, None)
        else:
            place[last] = copy.deepcopy(value)
    return changed


def without_keys(refusal: str) -> str:
    """A refusal of a key or a platform that does not exist, with `...` instead of those that do:
    they follow from the settings' classes, and each new one would change the tables of refusals."""
    for platforms in (WRITTEN, sorted(WRITTEN)):
        refusal = refusal.replace(f"allowed: {', '.join(platforms)}", "allowed: ...")
    refusal = re.sub(r"(only available on )[\w-]+( with existing)? and [^;]*", r"\1...", refusal)
    return re.sub(r"(there is no such key;.* allowed: ).*", r"\1...", refusal)


def config_of(stack: str) -> dict[str, str]:
    """`namespace:key` -> text; structured values as JSON."""
    return as_engine_config(values_of(stack))


def as_engine_config(values: Mapping[str, Any]) -> dict[str, str]:
    """As the engine flattens a stack file's config."""
    return {
        key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()
    }


def run_program() -> None:
    """The program itself, `__main__.py`."""
    runpy.run_path(str(ROOT / "__main__.py"), run_name="__main__")


def recorded(values: Mapping[str, Any], *, again: bool = False) -> Recording:
    """What an update with this config registers; recorded once, so nobody may change it."""
    return (_recorded.__wrapped__ if again else _recorded)(json.dumps(values))


@cache
def _recorded(values: str) -> Recording:
    config = as_engine_config(json.loads(values))
    return record(run_program, config=config, outputs=ANSWERS)
