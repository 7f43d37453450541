"""The comment on a pull request: what would be lost comes first, no value is shown."""

import json
from pathlib import Path
from typing import Any

import pulumi
import pytest

from gpu_cluster.cli.ci.preview_comment import MARK, MOST, code, comment, exit_code, sections_of
from gpu_cluster.cli.main import main
from gpu_cluster.components.eks.releases import left_behind
from gpu_cluster.components.eks.scaling import check_size
from gpu_cluster.components.lifecycle.replacement import warnings
from gpu_cluster.components.scalers import SCALERS
from gpu_cluster.components.schema.on_change import Kept
from gpu_cluster.stacks.engine.plan import Change, read_plan
from gpu_cluster.stacks.outcome import ExitCode

CLUSTER = "gpu-cluster:gke:Cluster$gcp:container/cluster:Cluster"
GPU_POOL = "gpu-cluster:gke:GpuNodePool$gcp:container/nodePool:NodePool"
SYSTEM_POOL = "gpu-cluster:gke:Cluster$gcp:container/nodePool:NodePool"
GROUP = "gpu-cluster:eks:GpuNodeGroup$aws:eks/nodeGroup:NodeGroup"
NETWORK = "gpu-cluster:gke:Cluster$gcp:compute/network:Network"


def step(op: str, chain: str, name: str, **more: Any) -> dict[str, Any]:
    """A step as the engine prints it."""
    urn = f"urn:pulumi:dev::gpu-cluster::{chain}::{name}"
    return {"op": op, "urn": urn, "newState": {"inputs": {"token": "s3cr3t"}}, **more}


def preview(
    *steps: dict[str, Any], same: int = 0, errors: tuple[str, ...] = (),
    warnings: tuple[str, ...] = (),
) -> str:  # fmt: skip
    """A preview's output."""
    said = [("error", each) for each in errors]
    said += [("warning", each) for each in ("a warning", *warnings)]
    return json.dumps(
        {
            "steps": list(steps),
            "diagnostics": [{"severity": how, "message": f"{what}\n"} for how, what in said],
            "changeSummary": {"same": same},
        }
    )


def written(folder: Path, base: str | None = None, **previews: str) -> tuple[str, int]:
    """The comment on these previews, and the exit code."""
    for stack, text in previews.items():
        (folder / f"{stack.replace('_', '.')}.json").write_text(text)
    sections = sections_of(folder, base)
    return comment(sections), exit_code(sections)


def test_policies_that_a_change_weakens_still_speak(tmp_path: Path) -> None:
    """What only the base's policies refuse stands at the top, and a person decides."""
    rule = "policy firewall-open: ssh lets 0.0.0.0/0 in"
    (tmp_path / "dev.policies.json").write_text(preview(errors=(rule, "preview failed")))
    text, end = written(tmp_path, dev=preview())
    assert text.index("the policies of the base branch refuse this") < text.index("| stack |")
    assert rule in text
    assert end == ExitCode.FINDING


@pytest.mark.parametrize("own", [(), ("policy a: b", "preview failed")])
def test_policies_that_agree_say_nothing_twice(tmp_path: Path, own: tuple[str, ...]) -> None:
    """The same verdict under both is one verdict."""
    (tmp_path / "dev.policies.json").write_text(preview(errors=own))
    text, end = written(tmp_path, dev=preview(errors=own))
    assert "the policies of the base" not in text
    assert end == (ExitCode.UNKNOWN if own else ExitCode.OK)


def test_base_policies_that_cannot_judge_are_a_finding(tmp_path: Path) -> None:
    """A change that keeps the base's policies from running does not pass for one they accept."""
    (tmp_path / "dev.policies.json").write_text("")
    text, end = written(tmp_path, dev=preview())
    assert "not the output of pulumi preview" in text
    assert end == ExitCode.FINDING


def test_a_replaced_cluster_is_the_first_thing_said(tmp_path: Path) -> None:
    """Clusters come before GPU pools, both before everything else, with what forces it."""
    text, end = written(
        tmp_path,
        dev=preview(
            step("update", NETWORK, "net", diffReasons=["routingMode"]),
            step("replace", GPU_POOL, "train-gpu"),
            step("replace", CLUSTER, "gpu-dev", replaceReasons=["subnetwork"]),
        ),
    )
    lines = [line for line in text.splitlines() if line]
    assert lines[:5] == [
        MARK,
        "## Preview",
        "> [!CAUTION]",
        "> **dev: the cluster `gpu-dev` would be replaced** because of `subnetwork`. Every pod and "
        "everything else in the cluster is deleted with it.  ",
        "> **dev: the GPU pool `train-gpu` would be replaced** together with what it depends on. "
        "Its nodes are deleted, and the pods on them start again.  ",
    ]
    assert end == ExitCode.FINDING


@pytest.mark.parametrize(
    ("op", "chain", "words"),
    [
        ("delete", GPU_POOL, "the GPU pool `x` would be deleted"),
        ("create-replacement", GROUP, "the GPU pool `x` would be replaced"),
        ("delete", "a:b:C$aws:eks/cluster:Cluster", "the cluster `x` would be deleted"),
    ],
)
def test_a_lost_cluster_or_gpu_pool_is_a_finding(
    tmp_path: Path, op: str, chain: str, words: str
) -> None:
    """Exit code 1, on either cloud, for a replacement as for a deletion."""
    text, end = written(tmp_path, dev=preview(step(op, chain, "x")))
    assert words in text
    assert end == ExitCode.FINDING


KARPENTER = "gpu-cluster:eks:KarpenterPool$kubernetes:karpenter.sh/v1:NodePool"
CLASS = "gpu-cluster:gke:ComputeClass$kubernetes:cloud.google.com/v1:ComputeClass"
DEFINITION = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"
NODES_GONE = "Its nodes are deleted, and the pods on them start again."


def node_pool(*taints: str) -> dict[str, Any]:
    """The old state of a NodePool whose nodes have these taints."""
    spec = {"template": {"spec": {"taints": [{"key": key} for key in taints]}}}
    return {"oldState": {"inputs": {"spec": spec}}}


@pytest.mark.parametrize(
    ("chain", "old", "lost", "consequence", "code"),
    [
        (KARPENTER, node_pool("nvidia.com/gpu"), "GPU pool", NODES_GONE, ExitCode.FINDING),
        (KARPENTER, {}, "GPU pool", NODES_GONE, ExitCode.FINDING),
        (KARPENTER, node_pool("team"), "system pool", NODES_GONE, ExitCode.OK),
        (CLASS, {}, "GPU pool", "Its nodes stay until they are empty", ExitCode.FINDING),
        ("gpu-cluster:batch:Batch$" + DEFINITION, {}, "definition",
         "Every object of its kind", ExitCode.FINDING),
        ("kubernetes:core/v1:Namespace", {}, "namespace", "Everything in it", ExitCode.FINDING),
        ("kubernetes:core/v1:PersistentVolumeClaim", {}, "claim", "The data", ExitCode.FINDING),
    ],
)  # fmt: skip
def test_every_scaler_and_what_others_have_is_lost_aloud(
    tmp_path: Path, chain: str, old: dict[str, Any], lost: str, consequence: str, code: ExitCode
) -> None:
    """Also with the streamed events, in which the old state has another name."""
    first = step("delete", chain, "x", **old)
    text, end = written(tmp_path, dev=preview(first))
    assert f"> **dev: the {lost} `x` would be deleted**. {consequence}" in text
    assert end == code
    event = {**first, "old": first.get("oldState")}
    (tmp_path / "dev.json").write_text(
        "\n".join(
            json.dumps(each)
            for each in (
                {"sequence": 1, "resourcePreEvent": {"metadata": event}},
                {"sequence": 2, "summaryEvent": {"resourceChanges": {}}},
            )
        )
    )
    assert comment(sections_of(tmp_path, None)).splitlines()[:8] == text.splitlines()[:8]


def test_what_is_lost_alike_has_one_line(tmp_path: Path) -> None:
    """Kueue has a dozen definitions; with the cluster, they go without saying."""
    steps = [step("delete", DEFINITION, f"d{number}") for number in range(7)]
    text, _ = written(tmp_path, dev=preview(*steps))
    assert "the definitions `d0`, `d1`, `d2`, `d3`, `d4` and 2 more would be deleted**." in text
    text, _ = written(tmp_path, dev=preview(*steps, step("delete", CLUSTER, "c")))
    assert "definition" not in text.partition("<details>")[0]


def test_every_scaler_that_declares_pools_is_known() -> None:
    """A new row needs no line in the comment."""
    for row in SCALERS.values():
        for kind in row.pools:
            urn = f"urn:pulumi:dev::gpu-cluster::{row.declared_by}${kind}::x"
            assert Change(urn=urn, verb="delete").loss == "GPU pool"
        assert bool(row.pools) == bool(row.declared_by)


def test_a_system_pool_is_said_and_no_finding(tmp_path: Path) -> None:
    """CPU nodes come back by themselves: a line at the top, exit code 0."""
    text, end = written(tmp_path, dev=preview(step("replace", SYSTEM_POOL, "gpu-dev-system")))
    assert "the system pool `gpu-dev-system` would be replaced" in text
    assert "Its nodes are deleted, and the pods on them start again." in text
    assert end == ExitCode.OK


def test_nothing_lost_is_no_alarm(tmp_path: Path) -> None:
    """Updates and creations of pools, and replacements of other things, raise no caution."""
    text, end = written(
        tmp_path,
        dev=preview(
            step("update", GPU_POOL, "train-gpu"),
            step("create", GROUP, "new"),
            step("replace", NETWORK, "net"),
            same=7,
        ),
    )
    assert "CAUTION" not in text
    assert "| `dev` | 1 |  | 1 | 1 | 7 |" in text
    assert end == ExitCode.OK


def test_a_replacement_is_counted_once(tmp_path: Path) -> None:
    """The engine's three steps of one replacement are one change."""
    plan = read_plan(
        preview(
            step("create-replacement", GPU_POOL, "a", replaceReasons=["machineType"]),
            step("replace", GPU_POOL, "a", replaceReasons=["machineType"]),
            step("delete-replaced", GPU_POOL, "a"),
        ),
        "dev.json",
    )
    assert [(change.verb, change.paths) for change in plan.changes] == [
        ("replace", ("machineType",))
    ]


def test_reads_the_stream_of_events_too(tmp_path: Path) -> None:
    """The engine's events say the same, and what policies said: mandatory ones fail the preview."""
    pool = {"urn": f"urn:pulumi:dev::gpu-cluster::{GPU_POOL}::a"}
    events = [
        *({"resourcePreEvent": {"metadata": {**pool, **step}}} for step in (
            {"op": "delete-replaced"}, {"op": "create-replacement", "keys": ["cluster"]},
            {"op": "same"})),
        {"policyEvent": {"policyName": "gpu-pool-taint", "enforcementLevel": "mandatory",
                         "message": "What it is for.\nGPU pool a has no taint\n"}},
        {"policyEvent": {"policyName": "gpu-all", "enforcementLevel": "advisory",
                         "message": "What it is for.\npod p sees every GPU"}},
        {"diagnosticEvent": {"severity": "error", "message": "preview failed\n"}},
        {"diagnosticEvent": {"severity": "debug", "message": "registering"}},
        {"summaryEvent": {"resourceChanges": {"same": 11, "replace": 1}}},
    ]  # fmt: skip
    lines = [json.dumps({"sequence": n, **event}) for n, event in enumerate(events)]
    plan = read_plan("\n".join(lines), "dev.json")
    assert [(change.verb, change.paths) for change in plan.changes] == [("replace", ("cluster",))]
    assert plan.errors == ["policy gpu-pool-taint: GPU pool a has no taint", "preview failed"]
    assert plan.advice == ["policy gpu-all: pod p sees every GPU"]
    assert plan.same == 11
    text, end = written(tmp_path, dev="\n".join(lines))
    assert "- `dev`: `policy gpu-all: pod p sees every GPU`" in text
    assert end == ExitCode.UNKNOWN


def test_no_value_of_a_property_is_in_the_comment(tmp_path: Path) -> None:
    """Property paths are shown, inputs and outputs never: some are secret."""
    changed = {"token.inner": {"kind": "update"}}
    update = step("update", NETWORK, "net", diffReasons=["token"], detailedDiff=changed)
    text, _ = written(tmp_path, dev=preview(update))
    assert "`token.inner`" in text
    assert "s3cr3t" not in text


def test_what_the_base_would_do_too_is_not_of_this_revision(tmp_path: Path) -> None:
    """A change that the base's own preview has as well is counted apart."""
    old = step("update", NETWORK, "net", diffReasons=["routingMode"])
    text, _ = written(
        tmp_path, dev=preview(old, step("create", GROUP, "new")), dev_base=preview(old)
    )
    assert "dev: 1 change<" in text
    assert "The preview of the base has 1 other change too" in text
    assert "routingMode" not in text


def test_a_failed_preview_is_shown_and_ends_with_2(tmp_path: Path) -> None:
    """What the engine or a policy said is in the comment, as code."""
    text, end = written(tmp_path, dev=preview(errors=("policy gpu-pool-taint: ```no taint",)))
    assert "> The preview of `dev` failed." in text
    assert "````\npolicy gpu-pool-taint: ```no taint\n````" in text
    assert end == ExitCode.UNKNOWN


PRELUDE = {"preludeEvent": {"config": {}}}
HOST = {
    "diagnosticEvent": {
        "severity": "info#err",
        "message": "exec: gpu-cluster-language-host: not found",
    }
}


@pytest.mark.parametrize(
    "events",
    [[PRELUDE], [PRELUDE, HOST, {"cancelEvent": {}}], [PRELUDE, {"summaryEvent": {}}]],
    ids=["cut", "no language host", "whole"],
)
def test_a_preview_without_a_summary_did_not_end(
    tmp_path: Path, events: list[dict[str, Any]]
) -> None:
    """Killed, cut, or without a program: it found no changes, and is none that found none."""
    lines = [json.dumps({"sequence": n, **event}) for n, event in enumerate(events)]
    text, end = written(tmp_path, dev="\n".join(lines))
    whole = "summaryEvent" in events[-1]
    assert end == (ExitCode.OK if whole else ExitCode.UNKNOWN)
    assert ("the preview did not finish" in text) is not whole
    assert ("language-host: not found" in text) is (HOST in events)
    document = json.loads(preview())
    del document["changeSummary"]
    assert written(tmp_path, dev=json.dumps(document))[1] == ExitCode.UNKNOWN


def test_recycled_nodes_are_said_with_what_recycles_them(tmp_path: Path) -> None:
    """An update in place that ends every pod of a pool is more than the word `update`."""
    line = (
        "gpuPools.a: an update of nodeConfig.machineType (g2-standard-8 -> g2-standard-12) recycles"
    )
    update = step("update", GPU_POOL, "a", diffReasons=["nodeConfig"])
    warned = f"{line} its nodes [GPUC-RECYCLE-GPU-POOL]"
    text, end = written(tmp_path, dev=preview(update, warnings=(warned,)))
    first = text[: text.index("| stack |")]
    assert "> **dev: nodes would be recycled.**" in first
    assert f"`{line} its nodes`" in first
    assert end == ExitCode.OK


def hooked_warnings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One of each kind of warning that a hook of the program logs."""
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda line, *_: said.append(line))
    bounds = {"minSize": 0, "maxSize": 3, "desiredSize": 2}
    check_size("gpuPools.a", {"scalingConfig": bounds | {"maxSize": 5}}, changed=bounds)
    said.append(left_behind("1.35", "1.36", ["coredns"]) or "")
    said += warnings({"a": "1"}, {"a": "2"}, {"a": "GPU pool"})
    said += warnings({"a": "1"}, {"a": "2"}, {"a": lambda *_: Kept("remove it yourself")})
    return said


def test_what_depends_on_the_state_is_in_the_comment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what to do, such as to refresh, and without the code for programs; what providers warn
    of may have values in it, and is not."""
    said = hooked_warnings(monkeypatch)
    update = step("update", GPU_POOL, "a", diffReasons=["scalingConfig"])
    text, end = written(tmp_path, dev=preview(update, warnings=(*said, "a provider's own words")))
    first = text[: text.index("| stack |")]
    assert "> **dev: the program warns.**" in first
    assert "run pulumi up --refresh if the autoscaler may have changed it since`" in first
    assert [line.count("> `") for line in first.splitlines()].count(1) == len(said) == 4
    assert "GPUC" not in text
    assert "own words" not in text
    assert end == ExitCode.OK


def test_names_cannot_break_the_table() -> None:
    """Bars, backquotes and line ends of a name stay inside its cell."""
    assert code("a|b") == "`a\\|b`"
    assert code("`a``b`") == "``` `a``b` ```"
    assert code("a\nb") == "`a b`"


def test_a_long_list_is_cut_below_what_a_comment_may_hold(tmp_path: Path) -> None:
    """Thousands of changes still make a comment, and it says how many it left out."""
    steps = [step("create", NETWORK, f"network-number-{n}") for n in range(3000)]
    text, _ = written(tmp_path, dev=preview(*steps))
    assert len(text) <= MOST
    assert "more: see the job's log" in text
    assert text.endswith("</details>")


def test_a_comment_about_many_failures_is_cut(tmp_path: Path) -> None:
    """Failed previews have no list that could be cut instead; the first ones are shown."""
    said = {"severity": "error", "message": "no " * 2000}
    failed = json.dumps({"diagnostics": [said], "steps": []})
    text, end = written(tmp_path, **{f"stack{number}": failed for number in range(30)})
    assert len(text) < 65_536
    assert text.endswith("see the job's log for the rest.")
    assert text.startswith(MARK)
    assert end == ExitCode.UNKNOWN


def test_a_cost_that_cannot_be_told_says_why(tmp_path: Path) -> None:
    """A stack without a file has `?`, with the reason below the table."""
    text, end = written(tmp_path, nosuch=preview())
    assert "| ? | ? |" in text
    assert "No cost of `nosuch`: `there is no Pulumi.nosuch.yaml" in text
    assert end == ExitCode.OK


@pytest.mark.parametrize("text", ["", "[]", "{}", "pulumi: not found"])
def test_what_is_no_preview_has_failed(tmp_path: Path, text: str) -> None:
    """An engine that never came to a plan is said, and hides no other stack's loss."""
    said, end = written(tmp_path, dev=text, train=preview(step("delete", GPU_POOL, "x")))
    assert "> The preview of `dev` failed." in said
    assert "dev.json: not the output of pulumi preview --json" in said
    assert "train: the GPU pool `x` would be deleted" in said
    assert end == ExitCode.UNKNOWN


def test_an_empty_folder_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a preview there is no comment: exit code 2 and what to do."""
    assert main(["ci", "preview-comment", str(tmp_path)]) == ExitCode.UNKNOWN
    assert "run pulumi preview --json first" in capsys.readouterr().err
