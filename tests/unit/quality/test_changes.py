"""Every setting has a change that `make inject-faults` tries in a live stack, or a reason."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast, get_args

import pytest
import yaml

from gpu_cluster.components.eks.cluster_args import EksClusterArgs
from gpu_cluster.components.eks.pool_args import EksGpuNodeGroupArgs
from gpu_cluster.components.gke.cluster_args import GkeClusterArgs
from gpu_cluster.components.gke.immutable import POOL as GKE_POOL
from gpu_cluster.components.gke.pool_args import GkeGpuNodePoolArgs
from gpu_cluster.components.gke_autopilot.cluster_args import GkeAutopilotArgs
from gpu_cluster.components.lifecycle.replacement import warnings as replacement_warnings
from gpu_cluster.components.platforms import PLATFORMS
from gpu_cluster.components.schema.decode import camel
from gpu_cluster.components.schema.effect import Silent
from gpu_cluster.components.schema.on_change import Loss, change_rules
from gpu_cluster.components.settings import load as settings
from gpu_cluster.components.settings import model
from gpu_cluster.rehearsal.engine.engine import Outcome
from gpu_cluster.rehearsal.sandbox import ROOT
from gpu_cluster.stacks.definition.files import EXAMPLES, SAMPLES
from gpu_cluster.stacks.definition.settings import platform_of
from gpu_cluster.stacks.engine.plan import Change as Planned
from gpu_cluster.stacks.engine.plan import codes, read_plan
from quality import keys
from quality.faults.changes import (
    FOLLOWED,
    MORE,
    NAMED,
    REPLACES,
    STACKS,
    Change,
    Effect,
    Table,
    _values,
    applied,
    changed,
    effects,
    not_as_said,
    table,
)
from quality.faults.fault_run import FaultRunner, NotRecovered
from quality.faults.inject import works
from quality.faults.table import changes_rows, replacements, summary
from quality.faults.workers import Part, Result
from quality.keys import settings_of
from quality.tries import document
from tests.program.effects import STACK_OF
from tests.unit.rehearsal.rehearsed import group

TITLE = re.compile(r"## `gpu-cluster:(\w+)[^`]*`(?: with `platform: ([\w-]+)`(.*)| on ([\w-]+)|.*)")
_KEY = re.compile(r"\| `([^`]+)` \|")


@cache
def _page() -> str:
    return keys.markdown()


def keys_of(platform: str) -> Iterator[str]:
    """Every key of the README's tables that a stack on the platform can have."""
    room = None
    for line in _page().splitlines():
        if title := TITLE.match(line):
            named = title[2] and title[2] + ("-existing" if title[3] else "")
            room = title[1] if (named or title[4] or platform) == platform else None
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
    """What is changed in the stack or in one that is only for changes, or has a reason. Of a change
    of a cluster, pool or monitoring with company, only the first key counts."""
    planned = table(platform, stack)
    found = {*planned.not_here, *planned.silent}
    if PLATFORMS[platform].added:  # what is not of its cluster is as on the platform
        like = platform.removesuffix("-existing")
        others = covered(like, STACK_OF[like])
        shared = (".autoscaler.", ".cpuPools.")
        found |= {k for k in others if not k.startswith("cluster.") or any(s in k for s in shared)}
    found |= {each.key for each in settings_of(platform) if each.inherited(Silent)}
    more = [table(platform, name) for name in MORE if platform_at(file_of(name)) == platform]
    for change in (change for each in (planned, *more) for change in each.changes):
        alone = change.key.partition(".")[0] in ("cluster", "gpuPools", "monitoring")
        for key, value in [(change.key, change.to[change.key])] if alone else change.whole.items():
            found |= set(given(key, value))
    return found


@pytest.mark.parametrize("stack", SAMPLES)
def test_every_setting_is_changed_or_has_a_reason(stack: str) -> None:
    """A new key needs a value in quality/tries.yaml, if none follows from its field."""
    platform = platform_at(EXAMPLES / f"Pulumi.{stack}.yaml")
    known = covered(platform, stack)
    parents = {key.rpartition(".")[0].removesuffix("[]").removesuffix(".<name>") for key in known}
    missing = [key for key in keys_of(platform) if key not in known | parents]
    assert not missing, f"no value to change them to: give one in quality/tries.yaml: {missing}"


def test_a_default_is_no_change() -> None:
    """Even if the settings refuse every other value that follows from the field."""
    known = next(each for each in settings_of("gke") if each.key == "trainingJobs.maxRestarts")
    assert _values("gke", replace(known, default=0)) == [1, -1]


@pytest.mark.parametrize("stack", SAMPLES)
def test_no_change_is_of_a_setting_that_is_gone(stack: str) -> None:
    """And each reason is for a key that exists."""
    platform = platform_at(EXAMPLES / f"Pulumi.{stack}.yaml")
    planned, known = table(platform, stack), set(keys_of(platform))
    changed_keys = [change.key for change in planned.changes if "." in change.key]
    used = [*planned.not_here, *(key.partition("=")[0] for key in planned.silent), *changed_keys]
    assert [key for key in used if key not in known] == []


def test_every_listed_value_is_of_a_setting() -> None:
    """Of its platform, or of some platform; `pods` means `workloads` too."""
    known = {name: {setting.key for setting in settings_of(name)} for name in PLATFORMS}
    known["all"] = set().union(*known.values())
    assert [
        f"{scope} {key}"
        for scope, values in document()["values"].items()
        for key in values
        if re.sub("^pods", "workloads", key) not in known[scope]
    ] == []


@pytest.mark.parametrize("stack", [*SAMPLES, *MORE])
def test_every_change_is_one_that_the_settings_take(
    stack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So each of them reaches the engine, and changes something."""
    monkeypatch.setenv("KUBECONFIG", str(ROOT / "tests" / "program" / "kubeconfig.yaml"))
    file = file_of(stack)
    for change in table(platform_at(file), stack).changes:
        start = changed(file.read_text(), change.given)
        assert _settings(changed(start, change.to)) != _settings(start), change


def platform_at(file: Path) -> str:
    return platform_of(yaml.safe_load(file.read_text())["config"])


def file_of(stack: str) -> Path:
    return (STACKS if stack in MORE else EXAMPLES) / f"Pulumi.{stack}.yaml"


IMMUTABLE = {
    "gke": (change_rules(GkeClusterArgs), {**change_rules(GkeGpuNodePoolArgs), **GKE_POOL}),
    "gke-autopilot": (change_rules(GkeAutopilotArgs), {}),
    "eks": (change_rules(EksClusterArgs), change_rules(EksGpuNodeGroupArgs)),
}
KEY_OF = {
    "effective_secure_boot": "secure_boot",
    "pool_run_duration_seconds": "max_run_duration_seconds",
    "pool_ssd_count": "local_ssd_count",
}
"""What several settings decide -> the one by which the file changes it."""


@pytest.mark.parametrize("platform", IMMUTABLE)
def test_every_immutable_setting_is_applied_or_refused(platform: str) -> None:
    """Some stack has a change of each that the program lists, and applies it, unless the rehearsed
    cloud lacks what the change names: a second cluster, another service account."""
    stacks = [s for s in (*SAMPLES, *MORE) if platform_at(file_of(s)) == platform]
    tables = [table(platform, stack) for stack in stacks]
    made = {one.key for each in tables for one in each.changes if not each.only_previewed(one.key)}
    listed = [
        f"{room}.{'.'.join(camel(step) for step in KEY_OF.get(path, path).split('.'))}"
        for room, paths in zip(("cluster", "gpuPools"), IMMUTABLE[platform], strict=True)
        for path in paths
    ]
    # A rule of a block is of the settings in it.
    made |= {key.rpartition(".")[0] for key in made}
    elsewhere = {key for each in tables for key in each.not_here}
    only_previewed = ["cluster.name", *(["gpuPools.serviceAccount"] if platform == "gke" else [])]
    assert [key for key in listed if key not in made | elsewhere] == only_previewed


def test_what_no_sample_can_change_is_a_part_of_the_proof() -> None:
    """Nothing but its changes."""
    assert {"block-changes", "placed-changes"} <= {*works()}
    assert "block-kills" not in works()
    assert table("gke", "placed").changes


def _settings(stack_file: str) -> model.Settings:
    config = yaml.load(stack_file, yaml.CSafeLoader)["config"]
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
    found = yaml.safe_load(changed(file, to))["config"]
    assert found["gpu-cluster:cluster"] == {"name": "a"}
    assert found["gpu-cluster:gpuPools"] == {
        "one": {"maxNodes": 5, "sharing": {"replicas": 2}},
        "two": {"maxNodes": 1},
        "three": {},
    }


def effect(key: str, **more: Any) -> Effect:
    return Effect(environment="dev", platform="gke", key=key, value="v", **more)


def test_the_table_has_three_kinds_of_change() -> None:
    """A row for each that is not made in place, with why, what the preview says, and whether it was
    applied; the others are counted."""
    name, second = "cluster.name", "a second cluster"
    found = [
        effect("cluster.labels", made=True),
        effect(name, replaced=("cluster", "GPU pool"), because=("name",), warned=("w",),
               not_made=second),
        effect("gpuPools.spot", replaced=("GPU pool",), because=("spot",), warned=("w",),
               made=True),
        effect("gpuPools.capacityType", replaced=("GPU pool",), because=("spot",), warned=("w",)),
        effect("gpuPools.diskSizeGb", recycled=("GPU pool",), made=True),
        effect("cluster.zones", kept=True, made=True),
        effect("cluster.network.podsCidr", refused=True),
    ]  # fmt: skip
    assert list(changes_rows(found)) == [
        f"| gke | `{name}` | replaces cluster, GPU pool | `name` | warns | {second} |",
        "| gke | `gpuPools.spot` | replaces GPU pool | `spot` | warns | yes |",
        "| gke | `gpuPools.capacityType` | replaces GPU pool | `spot` | warns | **no** |",
        "| gke | `gpuPools.diskSizeGb` | recycles nodes of GPU pool | - | warns | yes |",
        "| gke | `cluster.zones` | nothing | the cloud keeps what it has | warns | yes |",
        "| gke | `cluster.network.podsCidr` | nothing | the setting is immutable | refuses | - |",
    ]
    part = Part(stack="dev", work="changes")
    text = replacements([Result(part=part, effects=found, planned=7, tried=7)])
    assert text.startswith(
        "Of 7 changes, one at a time in 1 environments that were up, 1 are made in place, 1 "
        "recycle the nodes of a pool, 3 replace a node pool or the cluster, 1 change nothing and 1 "
        "are refused. Those of a cluster or its pools were then applied, by an `up` each: 1 in "
        "place, 1 that recycle and 1 that replace."
    )


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
        ([GPU], "GPU-POOL", None),
        ([GPU, SYSTEM], "NODE-POOLS", None),
        ([GPU, SYSTEM], "CLUSTER", None),
        ([GPU, SYSTEM], "GPU-POOL", "would replace the system pool n, and no warning says so"),
        ([GPU], None, "would replace the GPU pool n, and no warning says so"),
        ([], "GPU-POOL", "the program warns for nothing: why [GPUC-REPLACE-GPU-POOL]"),
    ],
)
def test_a_warning_says_all_that_is_lost(
    lost: list[Planned], said: str | None, unsaid: str | None
) -> None:
    """And nothing that is not."""
    warned = (f"why [GPUC-REPLACE-{said}]",) if said else ()
    assert list(not_as_said(lost, warned)) == ([unsaid] if unsaid else [])


POOL = GPU.urn
CHANGES = [
    Change(key=key, to={key: 2})
    for key in (
        "gpuPools.maxNodes",
        "gpuPools.machineType",
        "cluster.labels",
        "cluster.name",
        "workloads.replicas",
    )
]
FOUND = [
    effect(CHANGES[0].key),
    effect(CHANGES[1].key, replaced=("GPU pool",)),
    effect(CHANGES[2].key, recycled=("system pool",)),
    effect(CHANGES[3].key, replaced=("cluster",)),
    effect(CHANGES[4].key),
]
"""What the previews said: the second replaces the pool, the third recycles nodes, the last is of
what runs in the cluster."""
TABLE = Table(changes=CHANGES, not_applied={"cluster.name": "a second cluster"})


class FakeRunner:
    """A stack that is up, whose `up`s do what the test says."""

    stack = "dev"
    platform = "gke"

    def __init__(self, folder: Path, *ups: Mapping[str, Any]) -> None:
        self.folder, self.sandbox, self._ups = folder, self, [*ups]
        self.file = folder / "program" / "Pulumi.dev.yaml"
        self.file.parent.mkdir()
        self.file.write_text("config:\n  gpu-cluster:gpuPools: {one: {maxNodes: 1}}\n")
        self.engine, self.asked, self.created = self, [], {POOL: "monday"}
        self.cloud, self.program, self.revision = self, self, 0

    def node_groups(self) -> list[Any]:
        return [group("dev-system", revision=self.revision)]

    def resources(self) -> list[dict[str, str]]:
        return [{"urn": urn, "created": day} for urn, day in self.created.items()]

    def up(self) -> Outcome:
        self.asked.append(yaml.safe_load(self.file.read_text())["config"])
        does = self._ups.pop(0) if self._ups else {}
        self.created |= {urn: f"{len(self.asked)}. up" for urn in does.get("replaces", ())}
        for urn in does.get("deletes", ()):
            del self.created[urn]
        self.revision += does.get("recycles", 0)
        return Outcome(
            operation="up",
            ok=not does.get("errors"),
            seconds=1.0,
            errors=does.get("errors", ()),
            resources=does.get("resources", ()),
        )

    def run_or_fail(self, run: Callable[[], Outcome]) -> Outcome:
        return run()

    def run(self, *_: str, **__: str) -> Any:
        """A preview without any resource."""
        self.asked.append(yaml.safe_load(self.file.read_text())["config"])
        return SimpleNamespace(
            stdout=json.dumps({"steps": [], "changeSummary": {"same": 1}}, indent=1),
            stderr="",
            returncode=0,
        )


def made(runner: FakeRunner, planned: Table = TABLE) -> list[tuple[int, tuple[str, ...]]]:
    """The numbers of the changes that were applied, and what went wrong with each."""
    before = runner.file.read_text()
    found = list(applied(cast("FaultRunner", runner), planned, FOUND))
    assert [one.made or one.not_made for _, one in found] == [True, True, True, "a second cluster"]
    assert runner.file.read_text() == before
    return [(number, one.wrong) for number, one in found if one.made]


RIGHT = ({}, {"replaces": [POOL]}, {"replaces": [POOL], "recycles": 1})
"""What the `up`s do as the previews say: each takes the change before back."""


def test_every_change_of_cluster_and_pools_is_applied(tmp_path: Path) -> None:
    """Each alone, those that replace too, and nothing of what runs in the cluster."""
    runner = FakeRunner(tmp_path, *RIGHT)
    assert made(runner) == [(0, ()), (1, ()), (2, ())]
    one = {"maxNodes": 1}
    assert runner.asked == [
        {"gpu-cluster:gpuPools": {"one": {"maxNodes": 2}}},
        {"gpu-cluster:gpuPools": {"one": {**one, "machineType": 2}}},
        {"gpu-cluster:gpuPools": {"one": one}, "gpu-cluster:cluster": {"labels": 2}},
        {"gpu-cluster:gpuPools": {"one": one}, "gpu-cluster:cluster": {"labels": 2}},
    ]


def test_what_cannot_be_taken_back_stays(tmp_path: Path) -> None:
    """And what comes after is changed beside it."""
    runner = FakeRunner(tmp_path, {}, {"replaces": [POOL]}, {"recycles": 1})
    stays = replace(TABLE, stays=frozenset({"gpuPools.machineType"}))
    assert made(runner, stays) == [(0, ()), (1, ()), (2, ())]
    assert runner.asked[2]["gpu-cluster:gpuPools"] == {"one": {"maxNodes": 1, "machineType": 2}}


@pytest.mark.parametrize("because", [("amiType",), ()])
def test_two_changes_of_one_input_are_applied_from_the_same_start(
    tmp_path: Path, because: tuple[str, ...]
) -> None:
    """`osImage` and `secureBoot` may ask for one boot, and two changes for compute classes: from
    one to the other, nothing would happen."""
    runner = FakeRunner(tmp_path, {"replaces": [POOL]}, {"replaces": [POOL]}, {"replaces": [POOL]})
    start = yaml.safe_load(runner.file.read_text())["config"]
    found = [effect(change.key, replaced=("GPU pool",)) for change in CHANGES[:2]]
    found = [replace(each, because=because) for each in found]
    planned = Table(changes=CHANGES[:2])
    rows = list(applied(cast("FaultRunner", runner), planned, found))
    assert [(row.made, row.wrong) for _, row in rows] == [(True, ()), (True, ())]
    assert [asked == start for asked in runner.asked] == [False, True, False, False]


def test_a_pool_that_becomes_something_else_is_replaced(tmp_path: Path) -> None:
    """Its resource is deleted, and other types or names take its place."""
    assert made(FakeRunner(tmp_path, {}, {"deletes": [POOL]}), TABLE)[1] == (1, ())


def test_a_change_is_of_a_stack_that_has_what_it_needs(tmp_path: Path) -> None:
    """By an `up` of its own, whose replacement is not the change's, for the preview and when it is
    applied; the next change has none of it."""
    needs = replace(CHANGES[0], given={"gpuPools.os": "ubuntu"})
    runner, planned = FakeRunner(tmp_path, RIGHT[1]), Table(changes=[needs, CHANGES[2]])
    found = list(effects(cast("FaultRunner", runner), planned))
    rows = list(applied(cast("FaultRunner", runner), planned, found))
    assert [(row.made, row.wrong) for _, row in rows] == [(True, ()), (True, ())]
    pools = [asked["gpu-cluster:gpuPools"]["one"] for asked in runner.asked]
    old, start = {"maxNodes": 1}, {"maxNodes": 1, "os": "ubuntu"}
    assert pools == [*2 * [start, {"maxNodes": 2, "os": "ubuntu"}, old, old], old]


def test_a_change_of_a_cluster_or_pool_is_of_one_setting() -> None:
    """Except those without which the settings or the cloud refuse it."""
    together = {
        change.key
        for stack in SAMPLES
        for change in table(platform_at(file_of(stack)), stack).changes
        if len(change.to) > 1 and change.key.partition(".")[0] in FOLLOWED
    }
    assert together == {
        *("cluster.endpoint", "cluster.privateEndpoint", "cluster.version", "gpuPools.reservation"),
        *("gpuPools.kubelet.evictionSoft", "gpuPools.kubelet.evictionSoftGracePeriod"),
        "gpuPools.fallback",  # on an existing EKS cluster, whose autoscaler does not follow it
    }


@pytest.mark.parametrize(
    ("number", "does", "wrong"),
    [
        (0, {"replaces": [POOL]}, "the up replaced the GPU pool n"),
        (1, {}, "the up did not replace the GPU pool"),
        (0, {"recycles": 1}, "the up recycled the nodes of the system pool, and no warning says "
         "so"),
        (2, {"replaces": [POOL]}, "the program warns that nodes of the system pool are recycled, "
         "and none was"),
        (2, {"errors": ("no",)}, "no"),
    ],
)  # fmt: skip
def test_an_up_that_does_not_do_as_said_is_wrong_once(
    tmp_path: Path, number: int, does: Mapping[str, Any], wrong: str
) -> None:
    """The next change is not blamed for it."""
    ups = [*RIGHT]
    ups[number] = does
    assert made(FakeRunner(tmp_path, *ups)) == [
        (each, (wrong,) if each == number else ()) for each in (0, 1, 2)
    ]


def test_an_up_that_is_not_the_last_is_trouble(tmp_path: Path) -> None:
    """After all of them one more changes nothing."""
    runner = FakeRunner(tmp_path, *RIGHT, {"resources": (("update", POOL),)})
    with pytest.raises(NotRecovered, match="a further up: update urn:pulumi"):
        made(runner)


@pytest.mark.parametrize("loss", get_args(Loss))
def test_the_proof_knows_each_replacement_by_its_code(loss: Loss) -> None:
    """Whatever its words are."""
    (line,) = replacement_warnings({"k": "1"}, {"k": "2"}, {"k": loss})
    assert line.count("[") == 1
    assert [code in REPLACES for code in codes(line)] == [True]


def test_a_preview_says_what_the_program_warns_of() -> None:
    """Once each, in both formats."""
    said = {"severity": "warning", "message": "why [GPUC-KEPT]\n"}
    events = [{"sequence": 0}, {"diagnosticEvent": said}, {"diagnosticEvent": said}]
    stream = "\n".join(map(json.dumps, events))
    document = json.dumps({"steps": [], "diagnostics": [said]}, indent=1)
    for text in (stream, document):
        plan = read_plan(text, "a preview")
        assert [*map(codes, plan.warnings)] == [["KEPT"]]
