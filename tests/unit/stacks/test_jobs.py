"""Jobs that users submit are judged by what the stack published, in the words of its settings."""

import copy
import json
from dataclasses import MISSING, fields, is_dataclass, replace
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

import pytest
import yaml

from gpu_cluster.components.batch.batch_args import BatchArgs, QueueArgs
from gpu_cluster.components.batch.published import Published, batch_of, namespaces, parse_published
from gpu_cluster.components.cluster import AllAtOnce
from gpu_cluster.components.settings import load as settings
from gpu_cluster.stacks.jobs import cluster as jobs
from gpu_cluster.stacks.jobs.submitted import Job, jobs_in
from gpu_cluster.stacks.outcome import CheckError
from gpu_cluster.tools.sections import ROOT
from tests.program.environments import as_engine_config
from tests.program.everything import EVERYTHING, config_of
from tests.unit.components.test_settings_batch import dev
from tests.unit.components.test_settings_sharing import KUBECONFIG

TABLE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
"""Test -> its cases."""

JOB = {
    "pool": "train-gpu",
    "nodes": 2,
    "queue": "training",
    "image": "docker.io/pytorch/pytorch:2.9.1-cuda12.8-cudnn9-runtime",
    "command": ["/code/train.py"],
}


def published(**pool: Any) -> Published:
    """As a stack on GKE with a queue, an account and a claim publishes it, read back. `pool`
    replaces settings of its pool."""
    values = dev()
    if pool:
        values["gpu-cluster:cluster"]["location"] = "us-central1-b"
        values["gpu-cluster:gpuPools"]["train-gpu"] = pool
    values["gpu-cluster:serviceAccounts"] = {"trainer": {"buckets": {"data": "read"}}}
    values["gpu-cluster:volumeClaims"] = {"results": {"size": "1Gi"}}
    found = settings.from_config(as_engine_config(values))
    assert found.batch is not None
    return parse_published(
        Published(
            pools={name: one.pool for name, one in found.pools.items()},
            batch=found.batch,
            beside=found.auxiliary,
            buckets=found.own.access.buckets,
        ).text()
    )


def submitted(folder: Path, document: Any, stack: Published | None = None) -> list[Job]:
    """The jobs of a file with this document."""
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump(document))
    return jobs_in(file, stack or published(), "default")


def one(folder: Path, job: Any, stack: Published | None = None) -> Job:
    """A file's only job."""
    (found,) = submitted(folder, {"trainingJobs": {"mine": job}}, stack)
    return found


def worker(job: Job) -> Any:
    """The spec of its pods."""
    (workers,) = job.job_set["spec"]["replicatedJobs"]
    return workers["template"]["spec"]["template"]["spec"]


def template_of(job: Job) -> Any:
    """The template of claims that comes with it."""
    (template,) = [row for row in job.before if row["kind"] == "ResourceClaimTemplate"]
    return template


def test_a_submitted_job_mounts_disks_that_its_nodes_attach(tmp_path: Path) -> None:
    """Judged by what the stack published of its pools, as its own jobs are."""
    job = JOB | {"nodes": 1, "volumes": {"out": {"mountPath": "/out", "claim": "results"}}}
    said = "nodes of pool train-gpu cannot attach the disk of results"
    with pytest.raises(CheckError, match=said):
        one(tmp_path, job, published(machineType="g4-standard-48", maxNodes=2))


def test_a_submitted_job_brings_the_template_of_its_claims(tmp_path: Path) -> None:
    """In a pool with RDMA, under its own name, as a job of the stack does."""
    found = published(
        machineType="a3-ultragpu-8g", capacityType="spot", maxNodes=2, gpuDirect="rdma"
    )
    job = one(tmp_path, JOB, found)
    metadata = template_of(job)["metadata"]
    assert (metadata["name"], metadata["namespace"]) == ("mine", "default")
    assert worker(job)["resourceClaims"][0]["resourceClaimTemplateName"] == "mine"
    assert "ResourceClaimTemplate" not in {row["kind"] for row in one(tmp_path, JOB).before}


def test_a_submitted_job_claims_the_gpus_that_it_selects(tmp_path: Path) -> None:
    """In a pool with a DRA driver, by a template that comes with it; not in a queue."""
    pool = replace(published().pools["train-gpu"], device_class="gpu.nvidia.com")
    queued = parse_published(replace(published(), pools={pool.name: pool}).text())
    entry = JOB | {"gpuSelector": {"product": "T4"}}
    with pytest.raises(CheckError, match="gpuSelector: is not possible in queue training"):
        one(tmp_path, entry, queued)
    del entry["queue"]
    job = one(tmp_path, entry, replace(queued, batch=replace(queued.batch, queues={})))
    template = template_of(job)
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    assert (request["exactly"]["deviceClassName"], request["exactly"]["count"]) == (
        "gpu.nvidia.com", 1,
    )  # fmt: skip
    assert "contains('T4')" in request["exactly"]["selectors"][0]["cel"]["expression"]
    pod = worker(job)
    (claim,) = pod["resourceClaims"]
    assert claim["resourceClaimTemplateName"] == template["metadata"]["name"]
    (container,) = pod["containers"]
    assert container["resources"] == {"claims": [{"name": claim["name"]}]}


def test_a_submitted_job_says_the_parameters_of_its_request(tmp_path: Path) -> None:
    """Of a queued pool, as a job of the stack does; of another, nothing."""
    asks = AllAtOnce(provisioning_class="c", parameters={"maxRunDurationSeconds": "86400"})
    pool = replace(published().pools["train-gpu"], all_at_once=asks)
    found = parse_published(replace(published(), pools={pool.name: pool}).text())
    said = {"provreq.kueue.x-k8s.io/maxRunDurationSeconds": "86400"}
    assert one(tmp_path, JOB, found).job_set["metadata"]["annotations"] == said
    assert "annotations" not in one(tmp_path, JOB).job_set["metadata"]


def test_what_is_published_is_read_back() -> None:
    """Every field of pools, queues, accounts and claims, and it is JSON without empty keys."""
    found = published()
    assert parse_published(found.text()) == found
    assert found.pools["train-gpu"].resource == "nvidia.com/gpu"
    assert [toleration.key for toleration in found.pools["train-gpu"].tolerations] == [
        "nvidia.com/gpu"
    ]
    assert found.batch.queues["training"].quota(found.pools["train-gpu"]) == 3
    assert found.beside.accounts["trainer"].buckets == {"data": "read"}
    assert namespaces(found.batch) == ["default"]
    assert None not in json.loads(found.text())["pools"]["train-gpu"].values()


STACKS = {
    file.stem: yaml.safe_load(file.read_text())["config"]
    for folder in ("examples/*", "tests/fixtures/stacks")
    for file in sorted(ROOT.glob(f"{folder}/Pulumi.*.yaml"))
    if "gpu-cluster:cluster:" in file.read_text()
} | {stack: config_of(stack) for stack in EVERYTHING}
"""Every stack of the repository: each platform, with each of its scalers."""


@pytest.mark.parametrize("name", STACKS)
def test_every_stack_reads_what_it_publishes(name: str) -> None:
    """In each namespace, on every platform and with every scaler."""
    values = copy.deepcopy(STACKS[name])
    if values["gpu-cluster:cluster"].pop("kubeconfigFile", None):
        values["gpu-cluster:cluster"] |= {"kubeconfig": KUBECONFIG, "context": "c"}
    stack = settings.from_config(as_engine_config(values))
    batch = stack.batch or BatchArgs(job_set=True)
    for namespace in namespaces(batch):
        written = Published(
            pools={name: resolved.pool for name, resolved in stack.pools.items()},
            batch=batch_of(batch, namespace),
            beside=stack.auxiliary,
            buckets=stack.own.access.buckets,
        )
        assert plain(parse_published(written.text())) == plain(written)


def plain(stack: Published) -> Any:
    """As maps and lists."""
    return json.loads(json.dumps(stack, default=_fields))


def _fields(value: Any) -> Any:
    if is_dataclass(value):
        # Submitters do not need these, which are not published.
        unread = ("cdi", "driver_branch", "max_pods")
        names = [field.name for field in fields(value) if field.name not in unread]
        return {name: getattr(value, name) for name in names}
    return dict(value)


def test_what_a_stack_publishes_may_be_left_out_when_it_is_empty() -> None:
    """The text has no empty keys, so every setting that may be None is None without its key."""
    required = [
        f"{kind.__name__}.{field.name}"
        for kind in reached(Published)
        for field in fields(kind)
        if NoneType in get_args(get_type_hints(kind)[field.name])
        and (field.default, field.default_factory) == (MISSING, MISSING)
    ]
    assert required == []


def reached(kind: Any) -> set[type]:
    """The dataclasses that a value of this type can contain."""
    found = {kind} if is_dataclass(kind) and isinstance(kind, type) else set()
    parts = get_type_hints(kind).values() if found else get_args(kind)
    return found.union(*map(reached, parts))


def test_a_job_is_rendered_as_the_stack_would(tmp_path: Path) -> None:
    """The same spec, with its files, its network policy, and the mark of what was submitted."""
    (tmp_path / "train.py").write_text("print('hello')\n")
    volumes = {
        "code": {"mountPath": "/code", "files": ["train.py"]},
        "data": {"mountPath": "/data", "bucket": "data"},
    }
    job = {**JOB, "serviceAccount": "trainer", "volumes": volumes}
    found = one(tmp_path, job)
    policy, files = found.before
    assert policy["spec"]["ingress"] == [
        {"from": [{"podSelector": {"matchLabels": {"jobset.sigs.k8s.io/jobset-name": "mine"}}}]}
    ]
    assert files["data"] == {"train.py": "print('hello')\n"}
    metadata = found.job_set["metadata"]
    assert metadata["labels"] == {
        "app": "mine", "kueue.x-k8s.io/queue-name": "training", "gpu-cluster/submitted": "true",
    }  # fmt: skip
    pod = worker(found)
    assert pod["serviceAccountName"] == "trainer"
    assert pod["nodeSelector"]["gpu-cluster/pool"] == "train-gpu"
    assert [volume["name"] for volume in pod["volumes"]] == ["shared-memory", "code", "data"]
    assert pod["volumes"][1]["configMap"]["name"] == files["metadata"]["name"]
    assert json.loads(json.dumps(found.job_set)) == found.job_set


@pytest.mark.parametrize(("change", "says"), TABLE["test_what_cannot_run_is_refused_before"])
def test_what_cannot_run_is_refused_before(
    tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    """In the words of the settings, with the key's path."""
    job = {key: value for key, value in {**JOB, **change}.items() if value is not None}
    with pytest.raises(CheckError) as refused:
        one(tmp_path, job)
    assert str(refused.value).startswith(f"trainingJobs.mine.{says}")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"pool": "theirs"}, "pool: 'theirs' is not a pool; allowed: train-gpu"),
        ({"queue": "theirs"}, "queue: 'theirs' is not a queue; allowed: training"),
    ],
)
def test_pools_and_queues_of_other_teams_are_not_named(
    tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    """What another namespace's queue hands out is not for jobs of this one."""
    found = published()
    (pool,) = found.pools.values()
    queues = {
        **found.batch.queues,
        "theirs": QueueArgs(pools=["theirs"], namespaces=["team"], nominal_quota={"theirs": 1}),
    }
    shared = replace(
        found,
        pools={**found.pools, "theirs": replace(pool, name="theirs")},
        batch=replace(found.batch, queues=queues),
    )
    with pytest.raises(CheckError) as refused:
        one(tmp_path, JOB | change, shared)
    assert str(refused.value) == f"trainingJobs.mine.{says}"


def test_more_pods_than_the_queue_ever_hands_out_are_refused(tmp_path: Path) -> None:
    """Such a job would wait for ever."""
    found = published()
    less = QueueArgs(pools=["train-gpu"], nominal_quota={"train-gpu": 1})
    small = replace(found, batch=BatchArgs(job_set=True, queues={"training": less}))
    with pytest.raises(CheckError, match="training hands out 1 GPUs of pool train-gpu"):
        one(tmp_path, JOB, small)


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({}, "trainingJobs: is missing, or is not the only key"),
        (
            {"trainingJobs": {"a": JOB}, "workloads": {}},
            "trainingJobs: is missing, or is not the only key",
        ),
        ({"trainingJobs": {}}, "trainingJobs: has no job"),
        ({"trainingJobs": {"A": JOB}}, "trainingJobs.A: 'A' is not a training job's name"),
    ],
)
def test_a_job_file_has_jobs_and_nothing_else(tmp_path: Path, document: Any, says: str) -> None:
    """A whole stack file is not one."""
    with pytest.raises(CheckError, match=says):
        submitted(tmp_path, document)


def test_every_mistake_of_a_job_file_has_a_line(tmp_path: Path) -> None:
    """Of every job and kind: names, keys, values, and what is only for stack files."""
    jobs = {
        "first": JOB | {"imge": "x", "wait": True},
        "Second": JOB,
        "third": JOB | {"pool": "trian-gpu", "disruptionBudget": True},
        "fourth": JOB | {"namespace": "team"},
    }
    with pytest.raises(CheckError) as refused:
        submitted(tmp_path, {"trainingJobs": jobs})
    lines = sorted(line.partition(": ")[0] for line in str(refused.value).splitlines())
    keys = [
        "Second", "first.imge", "first.wait", "fourth.namespace", "third.disruptionBudget",
        "third.pool",
    ]  # fmt: skip
    assert lines == [f"trainingJobs.{key}" for key in keys]


def test_a_file_that_is_none_is_one_line(tmp_path: Path) -> None:
    """Without a traceback."""
    with pytest.raises(CheckError, match="No such file"):
        jobs_in(tmp_path / "none.yaml", published(), "default")
    for text in (b"a: [", b"a: \xff", b"a: &a [*a]"):
        (tmp_path / "bad.yaml").write_bytes(text)
        with pytest.raises(CheckError, match="is not YAML"):
            jobs_in(tmp_path / "bad.yaml", published(), "default")


def job_set(**more: Any) -> dict[str, Any]:
    labels = {"kueue.x-k8s.io/queue-name": "training"}
    spec = {"replicatedJobs": [{"name": "workers", "template": {"spec": {"completions": 2}}}]}
    return {"metadata": {"name": "first", "labels": labels}, "spec": spec | more.pop("spec", {}),
            **more}  # fmt: skip


def cancelled() -> dict[str, Any]:
    found = job_set(status={"conditions": [{"type": "Completed", "status": "True"}]})
    found["metadata"]["deletionTimestamp"] = "2026-11-22T00:00:00Z"
    return found


@pytest.mark.parametrize(
    ("job", "state"),
    [
        (job_set(spec={"suspend": True}), "waits in queue training"),
        (job_set(), "starting"),
        (
            job_set(status={"replicatedJobsStatus": [{"name": "workers", "ready": 1}]}),
            "running",
        ),
        (
            job_set(status={"conditions": [{"type": "Completed", "status": "True"}]}),
            "completed",
        ),
        (job_set(status={"conditions": [{"type": "Failed", "status": "True"}]}), "failed"),
        (cancelled(), "ending"),
    ],
)
def test_how_far_a_job_is(job: dict[str, Any], state: str) -> None:
    """In a word or two, as the list has it."""
    assert jobs.job_state(job) == state
    assert jobs.row(job)["nodes"] == 2


def test_the_example_could_run() -> None:
    """The documented file, with the script that comes with the repository."""
    values = dev()
    values["gpu-cluster:volumeClaims"] = {"checkpoints": {"size": "10Gi"}}
    found = settings.from_config(as_engine_config(values))
    assert found.batch is not None
    pools = {name: pool.pool for name, pool in found.pools.items()}
    stack = Published(pools=pools, batch=found.batch, beside=found.auxiliary)
    (job,) = jobs_in(ROOT / "examples" / "training" / "job.yaml", stack, "default")
    (files,) = [each for each in job.before if each["kind"] == "ConfigMap"]
    script = ROOT / "examples" / "training" / "train.py"
    assert files["data"] == {"train.py": script.read_text()}
