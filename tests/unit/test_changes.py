"""Every setting has a change that `make prove` tries in a stack that stands, or a reason."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from checks import keys
from checks.plan import Change as Planned
from components import environments, settings
from prove.changes import NAMED, Change, Effect, changed, not_as_said, table
from prove.shards import Part, Result
from prove.table import changes_rows, replacements, summary
from rehearsal.clouds import platform_of
from rehearsal.stage import ROOT
from stacks.files import stacks

_TITLE = re.compile(r"#### `gpu-cluster:(\w+)[^`]*`(?: with `platform: ([\w-]+)`| on ([\w-]+)|.*)")
_KEY = re.compile(r"\| `([^`]+)` \|")


def keys_of(platform: str) -> Iterator[str]:
    """Every key of the README's tables that a stack on the platform can have."""
    room = None
    for line in keys.markdown().splitlines():
        if title := _TITLE.match(line):
            room = title[1] if (title[2] or title[3] or platform) == platform else None
        elif room and (key := _KEY.match(line)):
            yield f"{room}.{key[1]}"


def given(key: str, value: Any) -> Iterator[str]:
    """The keys that a value gives, as the tables of keys have them."""
    yield key
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from given(f"{key}.{name}", inner)
            # The tables have one row for all entries that have names.
            yield from given(key if key in NAMED else f"{key}.<name>", inner)
    elif isinstance(value, list):
        for inner in value:
            yield from given(f"{key}[]", inner)


def covered(platform: str, stack: str) -> set[str]:
    """What the file changes or gives a reason for. Of a change of a cluster, pool or monitoring
    with company, only the first key counts."""
    planned = table(platform, stack)
    found = set(planned.not_here)
    for change in planned.changes:
        alone = change.key.partition(".")[0] in ("cluster", "gpuPools", "monitoring")
        for key, value in [(change.key, change.to[change.key])] if alone else change.to.items():
            found |= set(given(key, value))
    return found


@pytest.mark.parametrize("stack", stacks(ROOT))
def test_every_setting_is_changed_or_has_a_reason(stack: str) -> None:
    """A new key needs a line in prove/changes.yaml."""
    platform = platform_of(ROOT / f"Pulumi.{stack}.yaml")
    known = covered(platform, stack)
    parents = {key.rpartition(".")[0].removesuffix("[]").removesuffix(".<name>") for key in known}
    missing = [key for key in keys_of(platform) if key not in known | parents]
    assert not missing


@pytest.mark.parametrize("stack", stacks(ROOT))
def test_no_change_is_of_a_setting_that_is_gone(stack: str) -> None:
    """And each reason is for a key that exists."""
    platform = platform_of(ROOT / f"Pulumi.{stack}.yaml")
    planned, known = table(platform, stack), set(keys_of(platform))
    used = [*planned.not_here, *(change.key for change in planned.changes if "." in change.key)]
    assert [key for key in used if key not in known] == []


@pytest.mark.parametrize("stack", stacks(ROOT))
def test_every_change_is_one_that_the_settings_take(
    stack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So each of them reaches the engine, and changes something."""
    monkeypatch.setenv("KUBECONFIG", str(ROOT / "tests" / "program" / "kubeconfig.yaml"))
    file = (ROOT / f"Pulumi.{stack}.yaml").read_text()
    before = _settings(file)
    for change in table(platform_of(ROOT / f"Pulumi.{stack}.yaml"), stack).changes:
        assert _settings(changed(file, change)) != before, change


def _settings(stack_file: str) -> environments.Settings:
    config = yaml.safe_load(stack_file)["config"]
    return settings.from_config(
        {key: v if isinstance(v, str) else json.dumps(v) for key, v in config.items()}
    )


def test_a_change_reaches_the_first_pool_and_leaves_the_rest() -> None:
    """With its company, and without what it takes away."""
    file = yaml.safe_dump(
        {"config": {"gpu-cluster:cluster": {"name": "a", "zones": ["z"]},
                    "gpu-cluster:gpuPools": {"one": {"maxNodes": 1}, "two": {"maxNodes": 1}}}}
    )  # fmt: skip
    to = {"gpuPools.maxNodes": 5, "gpuPools.sharing.replicas": 2, "cluster.zones": "absent",
          "gpuPools": {"three": {}}}  # fmt: skip
    found = yaml.safe_load(changed(file, Change(key="gpuPools.maxNodes", to=to)))["config"]
    assert found["gpu-cluster:cluster"] == {"name": "a"}
    assert found["gpu-cluster:gpuPools"] == {
        "one": {"maxNodes": 5, "sharing": {"replicas": 2}}, "two": {"maxNodes": 1}, "three": {},
    }  # fmt: skip


def effect(key: str, **more: Any) -> Effect:
    return Effect(environment="dev", platform="gke", key=key, value="v", **more)


def test_the_table_has_what_replaces_and_what_is_refused() -> None:
    """A row each, with the property that forces it; the others are counted."""
    found = [
        effect("cluster.labels"),
        effect("cluster.name", replaced=("cluster", "GPU pool"), because=("name",), warned=("w",)),
        effect("cluster.network.podsCidr", refused=True),
    ]
    assert list(changes_rows(found)) == [
        "| gke | `cluster.name` | cluster, GPU pool | `name` | warns |",
        "| gke | `cluster.network.podsCidr` | nothing | the cloud changes it in no way | refuses |",
    ]
    part = Part(stack="dev", work="changes")
    text = replacements([Result(part=part, effects=found, planned=3, tried=3)])
    assert text.startswith("Of 3 changes, one at a time in 1 environments that were up, 1 replace")


def test_a_replacement_without_a_warning_fails_the_proof() -> None:
    """It is one that the cloud does not demand, or one that the program should warn of."""
    bad = effect("gpuPools.labels", replaced=("GPU pool",), wrong=("would replace it",))
    (line,) = summary([Result(part=Part(stack="dev", work="changes"), effects=[bad])])
    assert line == "dev: gpuPools.labels to v: would replace it"


SYSTEM, GPU = (
    Planned(urn=f"urn:pulumi:dev::p::{kind}gcp:container/nodePool:NodePool::n", verb="replace")
    for kind in ("", "gpu-cluster:gke:GpuNodePool$")
)


@pytest.mark.parametrize(
    ("lost", "said", "unsaid"),
    [
        ([GPU], "GPU pool", None),
        ([GPU, SYSTEM], "node pools", None),
        ([GPU, SYSTEM], "cluster", None),
        ([GPU, SYSTEM], "GPU pool", "would replace the system pool n, and no warning says so"),
        ([GPU], None, "would replace the GPU pool n, and no warning says so"),
        ([], "GPU pool", "the program warns for nothing: k: 1 -> 2 makes the GPU pool anew: why"),
    ],
)
def test_a_warning_says_all_that_is_lost(
    lost: list[Planned], said: str | None, unsaid: str | None
) -> None:
    """And nothing that is not."""
    warned = (f"k: 1 -> 2 makes the {said} anew: why",) if said else ()
    assert list(not_as_said(lost, warned)) == ([unsaid] if unsaid else [])
