"""The report's table, its JSON and its picture, from an event log written by hand."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from gpu_cluster.rehearsal.event_log import Event, EventLog
from gpu_cluster.rehearsal.report import differences
from gpu_cluster.rehearsal.report.report import (
    Report,
    created,
    gpu_nodes_over_time,
    node_lives,
    pod_lives,
    report_text,
)
from gpu_cluster.rehearsal.report.timeline import svg
from gpu_cluster.tools.programs import program


def event(at: float, kind: str, subject: str, what: str, **detail: object) -> Event:
    return Event(at=at, kind=kind, subject=subject, what=what, detail=detail)


def pod_event(at: float, what: str, node: str | None = None) -> Event:
    return event(at, "pod", "default/s-1", what, workload="Deployment default/s", gpus=1, node=node)


EVENTS = [
    event(1.0, "node", "cpu", "joined"),
    event(1.0, "node", "cpu", "member", group="system", gpus=0),
    pod_event(2.0, "pending"),
    event(3.0, "node", "gpu", "joined"),
    event(3.0, "node", "gpu", "member", group="train-gpu", gpus=1),
    event(4.5, "node", "gpu", "gpus", gpus=1),
    pod_event(4.6, "bound", "gpu"),
    pod_event(5.0, "ready", "gpu"),
    event(8.0, "node", "gpu", "gpus", gpus=1),
    pod_event(9.0, "deleting", "gpu"),
    pod_event(9.1, "deleted", "gpu"),
    event(20.0, "node", "gpu", "gpus", gpus=0),
    event(20.1, "node", "gpu", "left"),
]


def report(**fields: object) -> Report:
    nodes = node_lives(EVENTS)
    given = {
        "stack": "dev",
        "ok": True,
        "seconds": 21.0,
        "failures": [],
        "warnings": [],
        "versions": {"pulumi": "v3.259.0"},
        "steps": [
            {"name": "pulumi up", "began": 0.5, "seconds": 1.5, "ok": True, "detail": "3 created"}
        ],
        "resources": {"gcp:container/nodePool:NodePool": 2},
        "nodes": nodes,
        "pods": pod_lives(EVENTS),
        "gpu_nodes": gpu_nodes_over_time(nodes),
    }
    return Report(**{**given, **fields})


def test_gpu_nodes_are_counted_from_joining_to_leaving() -> None:
    """Nodes without GPUs do not count."""
    assert gpu_nodes_over_time(node_lives(EVENTS)) == [(0.0, 0), (3.0, 1), (20.1, 0)]


def test_a_node_remembers_when_its_gpus_first_appeared() -> None:
    """GPUs that go and come back later do not change that."""
    (gpu,) = [node for node in node_lives(EVENTS) if node.name == "gpu"]
    assert (gpu.joined, gpu.gpus_at, gpu.left) == (3.0, 4.5, 20.1)


def test_a_pod_keeps_its_last_state_when_it_is_deleted() -> None:
    """`ready` is what the report shows of a pod that ran and then left."""
    (pod,) = pod_lives(EVENTS)
    assert (pod.created, pod.bound, pod.ready, pod.left) == (2.0, 4.6, 5.0, 9.1)
    assert (pod.state, pod.node) == ("ready", "gpu")


def test_a_pod_first_seen_running_was_bound_by_then() -> None:
    """A watch may miss the states in between."""
    (pod,) = pod_lives([pod_event(2.0, "ready", "gpu")])
    assert pod.bound == pod.ready == 2.0


def test_created_resources_are_counted_by_type() -> None:
    """The URN's own type counts, not its parents'."""
    urns = [
        "urn:pulumi:dev::p::gpu-cluster:gke:Cluster$gcp:container/nodePool:NodePool::a",
        "urn:pulumi:dev::p::gcp:container/nodePool:NodePool::b",
        "urn:pulumi:dev::p::pulumi:pulumi:Stack::p-dev",  # which `pulumi up` does not count
    ]
    assert created(urns) == {"gcp:container/nodePool:NodePool": 2}


def test_the_table_shows_the_way_of_a_workload() -> None:
    """Times, node and GPUs stand in one line for each pod."""
    shown = report_text(report())
    assert "GPU nodes: 0 at 0.0 s -> 1 at 3.0 s -> 0 at 20.1 s" in shown
    assert "Deployment default/s  1     ready  2.0 s    4.6 s  5.0 s     gpu" in shown
    assert shown.endswith("rehearsal of dev: passed in 21.0 s")


def test_what_was_created_is_listed_by_package() -> None:
    """A line for each, with the types as people know them."""
    resources = {"gcp:compute/network:Network": 1, "gcp:container/nodePool:NodePool": 2,
                 "kubernetes:apps/v1:DaemonSet": 1}  # fmt: skip
    assert (
        "\n4 resources created\n  gcp: Network, NodePool 2\n  kubernetes: DaemonSet\n"
        in report_text(report(resources=resources))
    )


def test_pods_of_one_workload_are_told_apart() -> None:
    """By what their names have beyond the workload's, as those of a JobSet's Job."""

    def pod(name: str, workload: str = "Job default/ddp-workers-0") -> Event:
        return event(2.0, "pod", f"default/{name}", "pending", workload=workload, gpus=1, node=None)

    three = [pod("ddp-workers-0-0-x7k2p"), pod("ddp-workers-0-1-9qz4d"), pod("a", "Pod default/a")]
    shown = report_text(report(pods=pod_lives(three)))
    rows = [line.split("  ")[0] for line in shown.splitlines() if " default/" in line]
    assert rows == [
        "Job default/ddp-workers-0 (0-x7k2p)", "Job default/ddp-workers-0 (1-9qz4d)",
        "Pod default/a",
    ]  # fmt: skip


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_terminal_shows_whole_lines(width: int) -> None:
    """None is longer than it; what does not fit is cut or goes on below, indented."""
    steps = [{"name": "pulumi up", "seconds": 1.5, "ok": True, "detail": "made " * 30}]
    long = report(steps=steps, warnings=["why and what to do " * 9])
    shown = report_text(long, width)
    assert max(map(len, shown.splitlines())) <= width
    assert "\n    what to do why" in shown or "\n    why and what" in shown or "\n    and" in shown
    whole = report_text(long)
    assert max(map(len, whole.splitlines())) > 150
    failed = report_text(report(ok=False, steps=[{**steps[0], "ok": False}]), width)
    assert failed.count("made") == 30


def test_a_failure_is_told_in_full() -> None:
    """What failed stands under its own heading, and the last line says so."""
    shown = report_text(report(ok=False, failures=["pool train-gpu: no"]))
    assert "why it failed\n  - pool train-gpu: no\n" in shown
    assert shown.endswith("rehearsal of dev: FAILED in 21.0 s")


def test_a_failure_is_told_once() -> None:
    """The step that failed leads to the heading; another step's words stay where they are."""
    steps = [
        {"name": "pulumi up", "seconds": 1.5, "ok": True, "detail": "21 created"},
        {"name": "leak check", "seconds": 0.1, "ok": False, "detail": "a disk is left"},
    ]
    shown = report_text(report(ok=False, steps=steps, failures=["a disk is left"]))
    assert shown.count("a disk is left") == 1
    assert "leak check  0.1 s     see why it failed\n" in shown
    assert "21 created" in shown


def test_nodes_that_a_budget_held_are_named_with_what_the_cloud_waits() -> None:
    """Here it took half a minute."""
    change = {"from": "v1", "deleted": ["p"], "recycled": ["n1", "n2"], "drifted": []}
    change["forced"] = ["n2"]
    shown = report_text(report(change=change))
    assert "changes since v1: 1 deleted, 2 recycled, 0 drifted, 1 forced\n  deleted: p\n" in shown
    assert "  forced: n2\n  a PodDisruptionBudget keeps" in shown
    change["forced"] = []
    assert "PodDisruptionBudget" not in report_text(report(change=change))


def test_programs_that_were_not_built_here_are_named() -> None:
    """With their version and where they are; without any, what was built is named alone."""
    own, found = {"karpenter": ""}, {"etcd": "v3.6.5 (/opt/bin/etcd)"}
    shown = report_text(report(programs=own | found))
    assert "built here: karpenter\nfound on this machine: etcd v3.6.5 (/opt/bin/etcd)\n" in shown
    assert "found on this machine" not in report_text(report(programs=own))


def test_the_report_survives_json() -> None:
    """`report.json` has every field as plain data."""
    document = json.loads(json.dumps(report().document()))
    assert document["gpu_nodes"] == [[0.0, 0], [3.0, 1], [20.1, 0]]
    assert document["pods"][0]["workload"] == "Deployment default/s"


def test_the_picture_is_well_formed_and_complete() -> None:
    """Every step, node and pod has its lane; names are escaped."""
    steps = [{"name": "a < b & c", "began": 0, "seconds": 1, "ok": False, "detail": "'<>'"}]
    root = ElementTree.fromstring(svg(report(steps=steps)))
    words = [element.text for element in root.iter() if element.tag.endswith("text")]
    for lane in ("a < b & c", "system: cpu", "train-gpu: gpu", "Deployment s"):
        assert lane in words


def test_the_picture_of_a_failure_says_why() -> None:
    """The red bar is in the legend, no heading is empty, and a step of no time has a bar."""
    steps = [{"name": "pulumi up", "began": 0, "seconds": 0, "ok": False, "detail": "no quota"}]
    failed = {"ok": False, "failures": ["no quota", "nor"], "nodes": [], "pods": []}
    root = ElementTree.fromstring(svg(report(steps=steps, gpu_nodes=[(0.0, 0)], **failed)))
    words = [element.text or "" for element in root.iter() if element.tag.endswith("text")]
    assert {"failed", "no quota"} <= set(words)
    assert not {word for word in words if word.startswith(("Nodes", "Pods"))}
    assert [e for e in root.iter() if e.tag.endswith("rect") and e.find("*") is not None]


def test_a_long_name_keeps_its_end() -> None:
    """By which it differs from the others of its pool; all of it is in the tooltip."""
    name = "a-step-with-a-name-that-is-much-too-long-for-its-column-a1b2c"
    steps = [{"name": name, "began": 0, "seconds": 1, "ok": True, "detail": ""}]
    root = ElementTree.fromstring(svg(report(steps=steps)))
    words = [str(element.text) for element in root.iter()]
    assert f"…{name[-39:]}" in words
    assert name in words


def test_bars_stay_within_the_picture() -> None:
    """No bar begins before the axis or ends after it, whatever is still there at the end."""
    still_there = report(nodes=node_lives(EVENTS[:5]), pods=pod_lives(EVENTS[:8]), seconds=21.0)
    root = ElementTree.fromstring(svg(still_there))
    width = float(root.attrib["width"])
    bars = [e for e in root.iter() if e.tag.endswith("rect") and e.find("*") is not None]
    assert bars
    for bar in bars:
        assert float(bar.attrib["x"]) >= 300
        assert float(bar.attrib["x"]) + float(bar.attrib["width"]) <= width


def test_the_journal_writes_what_it_keeps(tmp_path: Path) -> None:
    """One JSON line for each event, and a finding only once."""
    event_log = EventLog(tmp_path / "events.jsonl")
    event_log.finding("pool", "two plugins")
    event_log.finding("pool", "two plugins")
    event_log.record("node", "n1", "joined")
    lines = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [line["what"] for line in lines] == ["two plugins", "joined"]
    assert event_log.findings == ["two plugins"]


def test_a_node_that_the_cloud_refused_never_was() -> None:
    """The autoscaler's idea of it is taken back; what is said of it later is of no node."""
    refused = [event(3.0, "node", "gpu", "taken back"), *EVENTS[5:]]
    assert [life.name for life in node_lives([*EVENTS[:5], *refused])] == ["cpu"]


def test_a_node_template_stands_beside_the_node() -> None:
    """Every tag with its value and the node's; what differs is counted in the title."""
    check = {
        "pool": "train-gpu",
        "node": "gpu",
        "tags": {"label/role": "train-gpu", "label/zone": "b"},
        "real": {"label/role": "train-gpu", "label/zone": None},
        "differences": ["tag label/zone says b"],
    }
    shown = report_text(report(template_checks=[check])).split("\n\n")
    (block,) = [
        block for block in shown if block.startswith("pool train-gpu: node template of 2 tags")
    ]
    assert block.splitlines()[0].endswith("against node gpu: 1 differ")
    assert [line.split() for line in block.splitlines()[2:]] == [
        ["label/role", "train-gpu", "train-gpu"],
        ["label/zone", "b", "-"],
    ]
    assert json.loads(json.dumps(report(template_checks=[check]).document()))[
        "template_checks"
    ] == [check]


def test_a_node_knows_when_its_plugin_ran_and_whether_it_was_used() -> None:
    """The first time that the daemon's pod was ready there counts."""

    def daemon(at: float) -> Event:
        given = {"workload": "DaemonSet kube-system/p", "gpus": 0, "node": "gpu", "part": "plugin"}
        return event(at, "pod", "kube-system/p-1", "ready", **given)

    *_, plain = node_lives(EVENTS[:5])
    assert (plain.parts, plain.used) == ({}, False)
    *_, node = node_lives([*EVENTS[:5], daemon(4.0), daemon(6.0), *EVENTS[5:]])
    assert (node.parts, node.used) == ({"plugin": 4.0}, True)


def runs(program: str, image: str) -> Event:
    return event(0.5, "node", "controllers", "runs", program=program, image=image)


def test_what_is_simulated_is_said() -> None:
    """A Job that succeeded here has run nothing."""
    lines = differences.lines([], 5.0)
    assert lines == [
        "containers: no program runs, and no image is pulled; a Job's pods succeed after 5 s, "
        "every other pod is ready at once"
    ]
    shown = report_text(report(simulated=lines))
    assert f"what this rehearsal simulates\n  - {lines[0]}" in shown


def test_a_version_that_the_stack_does_not_have_is_said() -> None:
    """The stack's version and the one that could be built are two facts."""
    version = program("kueue").version()
    same = [runs("kueue", f"registry.k8s.io/kueue/kueue:{version}")]
    assert differences.lines(same, 5.0)[1:] == []
    other = [runs("kueue", "mirror.example:5000/kueue:v9.9.9")]
    assert differences.lines(other, 5.0)[1:] == [
        f"Kueue: the stack has v9.9.9, but this machine ran {version}, which can be built here"
    ]
    pinned = [runs("jobset", "registry.k8s.io/jobset/jobset@sha256:00")]
    assert "the stack has sha256:00" in differences.lines(pinned, 5.0)[1]


@pytest.mark.parametrize(
    ("stack", "ran", "said"),
    [
        (
            "1.32.9-gke.1728000",
            "v1.36.5 as 1.33",
            [
                "Kubernetes: cluster.version of the stack is 1.32.9-gke.1728000, but the rehearsal "
                "ran v1.36.5 as 1.33"
            ],
        ),
        (
            "1.37",
            "v1.36.5",
            ["Kubernetes: cluster.version of the stack is 1.37, but the rehearsal ran v1.36.5"],
        ),
        ("1.34", "v1.36.5 as 1.34", []),
        ("1.36.4-gke.1391000", "v1.36.5", []),
        ("", "v1.36.5", []),
    ],
)
def test_another_minor_of_kubernetes_is_said(stack: str, ran: str, said: list[str]) -> None:
    """A rehearsal emulates the stack's version, as far as its own reaches; patches are alike."""
    assert differences.lines([], 5.0, kubernetes=(stack, ran))[1:] == said


def test_assumptions_of_the_cloud_are_in_the_report() -> None:
    """A change whose effect no source describes is one line of its own."""
    lines = differences.lines([], 5.0, assumptions=["node pool gpu: not known"])
    assert "  - node pool gpu: not known" in report_text(report(simulated=lines))


def test_the_quota_of_a_simulated_cloud_is_nobodys() -> None:
    """Whoever reads that a rehearsal passed must not take it for the account's quota."""
    (line,) = differences.lines([], 5.0, cloud=True)[1:]
    assert line.startswith("quotas: sufficient for every pool at its maximum; gpu-cluster cap")


def test_a_node_counts_once_the_cloud_has_agreed() -> None:
    """Until it is asked, on a busy machine seconds later, it may still refuse."""
    asked = [
        event(1.0, "node", "one", "joined"),
        event(1.1, "node", "one", "member", group="train-gpu", gpus=1, added=True),
        event(1.2, "node", "other", "joined"),
        event(1.2, "node", "other", "member", group="other-gpu", gpus=1, added=True),
    ]
    agreed = event(4.0, "cloud", "train-gpu", "size", nodes=1, before=0)
    assert [life.granted for life in node_lives(asked)] == [None, None]
    assert [life.granted for life in node_lives([*asked, agreed])] == [4.0, None]
