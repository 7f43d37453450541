"""Every setting has a change that `make prove` tries in a stack that stands, or a reason."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from checks import keys
from checks.plan import Change as Planned
from components import environments, settings
from prove.changes import NAMED, Change, Effect, Table, changed, makings, not_as_said, table
from prove.shards import Part, Result
from prove.table import changes_rows, replacements, summary
from prove.trial import Bench, Trouble
from rehearsal.clouds import platform_of
from rehearsal.engine import Outcome
from rehearsal.stage import ROOT
from stacks.files import SAMPLES

TITLE = re.compile(r"#### `gpu-cluster:(\w+)[^`]*`(?: with `platform: ([\w-]+)`| on ([\w-]+)|.*)")
_KEY = re.compile(r"\| `([^`]+)` \|")


def keys_of(platform: str) -> Iterator[str]:
    """Every key of the README's tables that a stack on the platform can have."""
    room = None
    for line in keys.markdown().splitlines():
        if title := TITLE.match(line):
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


@pytest.mark.parametrize("stack", SAMPLES)
def test_every_setting_is_changed_or_has_a_reason(stack: str) -> None:
    """A new key needs a line in prove/changes.yaml."""
    platform = platform_of(ROOT / f"Pulumi.{stack}.yaml")
    known = covered(platform, stack)
    parents = {key.rpartition(".")[0].removesuffix("[]").removesuffix(".<name>") for key in known}
    missing = [key for key in keys_of(platform) if key not in known | parents]
    assert not missing


@pytest.mark.parametrize("stack", SAMPLES)
def test_no_change_is_of_a_setting_that_is_gone(stack: str) -> None:
    """And each reason is for a key that exists."""
    platform = platform_of(ROOT / f"Pulumi.{stack}.yaml")
    planned, known = table(platform, stack), set(keys_of(platform))
    used = [*planned.not_here, *(change.key for change in planned.changes if "." in change.key)]
    assert [key for key in used if key not in known] == []


@pytest.mark.parametrize("stack", SAMPLES)
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


POOL = GPU.urn
CHANGES = [
    Change(key=key, to={key: 2})
    for key in ("gpuPools.maxNodes", "gpuPools.machineType", "cluster.labels", "workloads.replicas")
]
FOUND = [
    effect(CHANGES[0].key),
    effect(CHANGES[1].key, replaced=("GPU pool",)),
    effect(CHANGES[2].key),
    effect(CHANGES[3].key),
]
"""What the previews said: the second replaces the pool, the last is of what runs in the cluster."""


class FakeBench:
    """A stack that is up, whose `up`s do what the test says."""

    stack = "dev"

    def __init__(self, folder: Path, *ups: Mapping[str, Any]) -> None:
        self.folder, self.stage, self._ups = folder, self, [*ups]
        self.file = folder / "program" / "Pulumi.dev.yaml"
        self.file.parent.mkdir()
        self.file.write_text("config:\n  gpu-cluster:gpuPools: {one: {maxNodes: 1}}\n")
        self.engine, self.asked, self.created = self, [], {POOL: "monday"}

    def resources(self) -> list[dict[str, str]]:
        return [{"urn": urn, "created": day} for urn, day in self.created.items()]

    def up(self) -> Outcome:
        self.asked.append(yaml.safe_load(self.file.read_text())["config"])
        does = self._ups.pop(0) if self._ups else {}
        self.created |= dict.fromkeys(does.get("anew", ()), "tuesday")
        return Outcome(
            operation="up",
            ok=not does.get("errors"),
            seconds=1.0,
            errors=does.get("errors", ()),
            resources=does.get("resources", ()),
        )

    def must(self, run: Callable[[], Outcome]) -> Outcome:
        return run()


def made(bench: FakeBench) -> list[tuple[int, tuple[str, ...]]]:
    """The numbers of the changes that were made, and what went wrong with each."""
    before = bench.file.read_text()
    found = list(makings(cast("Bench", bench), Table(changes=CHANGES), FOUND))
    assert all(one.made for _, one in found)
    assert bench.file.read_text() == before
    return [(number, one.wrong) for number, one in found]


def test_what_should_replace_nothing_is_made(tmp_path: Path) -> None:
    """Each alone, and neither what the previews say is lost nor what runs in the cluster."""
    bench = FakeBench(tmp_path)
    assert made(bench) == [(0, ()), (2, ())]
    assert bench.asked == [
        {"gpu-cluster:gpuPools": {"one": {"maxNodes": 2}}},
        {"gpu-cluster:gpuPools": {"one": {"maxNodes": 1}}, "gpu-cluster:cluster": {"labels": 2}},
        {"gpu-cluster:gpuPools": {"one": {"maxNodes": 1}}, "gpu-cluster:cluster": {"labels": 2}},
    ]


def test_a_pool_that_an_up_makes_anew_is_wrong_once(tmp_path: Path) -> None:
    """Where the preview had said nothing of it; the next change is not blamed for it."""
    assert made(FakeBench(tmp_path, {"anew": [POOL]})) == [(0, ("the up made n anew",)), (2, ())]


def test_an_up_that_fails_is_wrong(tmp_path: Path) -> None:
    """With the engine's words."""
    assert made(FakeBench(tmp_path, {}, {"errors": ("no",)})) == [(0, ()), (2, ("no",))]


def test_an_up_that_is_not_the_last_is_trouble(tmp_path: Path) -> None:
    """After all of them one more changes nothing."""
    bench = FakeBench(tmp_path, {}, {}, {"resources": (("update", POOL),)})
    with pytest.raises(Trouble, match="a further up: update urn:pulumi"):
        made(bench)
