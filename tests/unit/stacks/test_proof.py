"""What a proof declares in its steps, its limits, and what its report says and does not say."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from botocore.exceptions import NoCredentialsError

from gpu_cluster.cli import prove
from gpu_cluster.cli.main import main
from gpu_cluster.components.settings.model import Settings
from gpu_cluster.stacks.cost.bill import Bill, Item, fixed
from gpu_cluster.stacks.cost.stack_cost import bill_at
from gpu_cluster.stacks.definition.settings import NOWHERE, config_of, settings_of
from gpu_cluster.stacks.outcome import CheckError
from gpu_cluster.stacks.proof import log_group, variants
from gpu_cluster.stacks.proof.limits import RESERVE, Limits, hourly_price, longest_wait
from gpu_cluster.stacks.proof.proof import Step
from gpu_cluster.stacks.proof.redaction import Redaction
from gpu_cluster.stacks.proof.report import compared, markdown
from gpu_cluster.tools.sections import ROOT

STACKS = ["dev", "train", "train-gke", "autopilot", "on-gke", "on-eks", "onprem"]


def read(stack: str) -> tuple[variants.Config, Settings[Any]]:
    config = config_of(stack)
    return config, settings_of(stack, config, kubeconfig=NOWHERE)


@pytest.mark.parametrize("stack", STACKS)
def test_what_the_steps_add_is_accepted_on_every_platform(stack: str) -> None:
    """A job and a test of every pool, also where a pod has to ask for several GPUs."""
    config, settings = read(stack)
    pools = [resolved.pool for resolved in settings.pools.values()]
    bare = variants.without_workloads(config)
    for changed in (
        variants.with_jobs(config, pools, 1),
        variants.with_test(variants.with_jobs(config, pools, 1), pools),
        variants.with_jobs(bare, pools, 2),
    ):
        assert variants.refusal(changed) == ""
    found = settings_of(stack, variants.with_jobs(bare, pools, 2), kubeconfig=NOWHERE)
    assert [*found.running["workloads"]] == [f"prove-{pool.name}-2" for pool in pools]
    assert all(job.wait and job.kind == "job" for job in found.running["workloads"].values())


def test_the_stacks_own_test_runs_once_more() -> None:
    """A Job never runs twice, so its generation is raised; its image and pools stay."""
    config, settings = read("dev")
    pools = [resolved.pool for resolved in settings.pools.values()]
    own = {"pools": ["train-gpu"], "image": "docker.io/a/b:1", "generation": 3}
    test = variants.with_test({**config, variants.GPU_TEST: own}, pools)[variants.GPU_TEST]
    assert test == {**own, "generation": 4, "wait": True}


def test_protection_is_found_and_taken_off() -> None:
    """Of a cluster, or of what a stack installs in one that belongs to somebody else."""
    config, _ = read("train-gke")
    cluster = {**config["gpu-cluster:cluster"], "deletionProtection": True}
    config = {**config, "gpu-cluster:cluster": cluster}
    settings = settings_of("train-gke", config, kubeconfig=NOWHERE)
    assert variants.protection(settings) == "cluster.deletionProtection"
    off = variants.unprotected(config, settings)
    assert off["gpu-cluster:cluster"] == {**cluster, "deletionProtection": False}
    config, settings = read("on-eks")
    assert variants.protection(settings) == ""
    assert variants.unprotected(config, settings) is config
    config = {**config, "gpu-cluster:batch": {"jobSet": True}}
    settings = settings_of("on-eks", config, kubeconfig=NOWHERE)
    assert variants.protection(settings) == "batch.deletionProtection"
    off = variants.unprotected(config, settings)
    assert variants.protection(settings_of("on-eks", off, kubeconfig=NOWHERE)) == ""


def test_the_smaller_limit_ends_a_proof_in_time_for_the_destroy() -> None:
    """Each minute costs what the stack costs with every pool full."""
    by_time = Limits(cost=100, minutes=90, hourly=10)
    assert by_time.seconds == (90 - RESERVE) * 60
    assert by_time.reason.startswith("the limit of 90 minutes is reached")
    by_cost = Limits(cost=10, minutes=90, hourly=10)
    assert by_cost.seconds == (60 - RESERVE) * 60
    assert by_cost.reason.startswith("the limit of $10.00 is reached")
    assert by_cost.spent(3600) == 10
    with pytest.raises(CheckError, match=r"allow at least 40 minutes and \$6.67"):
        Limits(cost=3, minutes=90, hourly=10).check()
    by_cost.check()
    assert Limits(cost=1, minutes=30, hourly=0).allowed == 30


def test_without_a_price_there_is_no_limit_of_cost() -> None:
    """Unless the user gives it."""
    part = fixed("machine", None, "nobody")
    bill = Bill(items=[Item(name="gpus", what="a machine", parts=[part], idle=0, full=2)])
    with pytest.raises(CheckError, match="no price is known for gpus"):
        hourly_price(bill, None)
    assert hourly_price(bill, 3.5) == 3.5


SECRETS = {
    "arn:aws:iam::123456789012:role/deploy": "no rights for",
    "123456789012": "account",
    "my-company-ml": "project",
    "34.118.2.7:443": "dial tcp",
    "https://0A1B2C3D.gr7.us-east-1.eks.amazonaws.com": "Post",
    "0A1B2C3D.gr7.us-east-1.eks.amazonaws.com": "lookup",
    "nodes@other-project-1.iam.gserviceaccount.com": "account",
    "projects/another/zones/us-central1-a": "not found:",
    "ip-10-0-1-23.ec2.internal": "node",
    "subnet-0123456789abcdef0": "in",
    "2600:1f18:40:9a00::1": "to",
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSURCVENDQWUyZ0F3SUJBZ0lJ": "certificate",
    "pul-0123456789": "token",
    "/home/somebody": "in",
    "acme-network": "no permission in",
    "registry.acme.example/mirror": "cannot pull",
    "acme-datasets": "no bucket",
    "acme-checkpoints": "no bucket",
    "acme-of-esc": "in",
    "AKIAIOSFODNN7EXAMPLE": "key",
    "AROAEXAMPLEID12345678:alice": "not authorized:",
    "1234abcd-12ab-34cd-56ef-1234567890ab": "KMS key",
    "ip-10-1-2-3": "node",
    "europe-docker.pkg.dev/acme-images": "cannot pull",
    "gcr.io/acmeimages": "cannot pull",
    "project:otherproject": "denied on",
    "project other-project-2": "denied in",
    "v1:abcdefgh:abcdefghijklmnop": "secure",
}


@pytest.mark.parametrize("secret", SECRETS)
def test_a_report_has_no_secret(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever text of a document it is in; what the form asks for stays."""
    monkeypatch.setenv("PULUMI_ACCESS_TOKEN", "pul-0123456789")
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("GOOGLE_PROJECT", "acme-of-esc")
    network = {"hostProject": "acme-network", "zones": ["us-east-1"]}
    config = {"gcp:project": "my-company-ml", "aws:region": "us-east-1", "aws:insecure": "false",
              "gpu-cluster:cluster": {"name": "gpu-trial", "network": network},
              "gpu-cluster:images": {"registry": "registry.acme.example/mirror"},
              "gpu-cluster:workloads": {"a": {"mounts": [{"bucket": "acme-datasets"}]}},
              "gpu-cluster:serviceAccounts": {"a": {"buckets": {"acme-checkpoints": "read"}}},
              }  # fmt: skip
    text = f"{SECRETS[secret]} {secret}: no quota for nvidia-tesla-t4 in us-east-1 on gpu-trial"
    shown = Redaction(config).document({"steps": [{"detail": text, "seconds": 12.5}]})
    hidden = secret.removeprefix("projects/").partition("/zones")[0]
    assert hidden not in json.dumps(shown)
    assert shown["steps"][0]["seconds"] == 12.5
    assert shown["steps"][0]["detail"].startswith(SECRETS[secret])
    assert shown["steps"][0]["detail"].endswith("nvidia-tesla-t4 in us-east-1 on gpu-trial")


@pytest.mark.parametrize("text", [
    "no nodes since 12:30:45, 2026-11-29T12:30:45Z",
    "version 1.35.4.123 and v1.2.3.4 of 570.86.1.2",
    "urn:pulumi:dev::gpu-cluster::gcp:container/cluster:Cluster::gpu-trial is false",
    "a project is not what the project needs",
])  # fmt: skip
def test_what_only_resembles_a_secret_stays(text: str) -> None:
    """A time is no address, and neither is a version with four parts."""
    assert Redaction({"aws:insecure": "false"}).text(text) == text


def step(name: str, state: Any = "passed", detail: str = "") -> dict[str, Any]:
    made = Step(name=name, state=state, began=0, seconds=60, detail=detail)
    return {key: getattr(made, key) for key in ("name", "state", "began", "seconds", "detail")}


def report(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A report of a proof."""
    return {
        "stack": "trial", "simulated": False, "exit": 1, "verdict": "a step failed",
        "platform": "gke", "place": "us-central1-a", "machines": {"gpu": "n1-standard-4"},
        "seconds": 600, "cost": {"hourly": 2.0, "atMost": 0.33}, "versions": {"pulumi": "v3.1.0"},
        "gpuNodes": [], "resources": {"a": 2, "b": 1}, "warnings": ["new"], "left": [],
        "rehearsal": {"found": False, "differences": [], "seconds": {}}, "steps": [*steps],
    } | more  # fmt: skip


REHEARSED = {
    "steps": [{"name": "pulumi up", "ok": True, "seconds": 9.0}],
    "resources": {"a": 1, "b": 1, "c": 1},
    "versions": {"pulumi": "v3.0.0", "Kubernetes": "v1.35.0"},
    "warnings": ["known"],
}


def test_what_differs_from_the_rehearsal_is_listed(tmp_path: Path) -> None:
    """Failures, resources, versions and warnings; and that the file is another one by now."""
    file, rehearsal = tmp_path / "Pulumi.trial.yaml", tmp_path / "report.json"
    rehearsal.write_text(json.dumps(REHEARSED))
    file.touch()
    os.utime(rehearsal, (0, 0))
    proof = report(step("pulumi up"), step("GPU job", "failed", "no GPU"))
    found = compared(proof, rehearsal, file)
    assert found == {
        "found": True,
        "differences": [
            "the stack's file has changed since the rehearsal",
            "GPU job: failed: no GPU",
            "a: 2 created instead of 1",
            "c: 0 created instead of 1",
            "pulumi: v3.1.0 instead of v3.0.0",
            "warning: new",
        ],
        "seconds": {"pulumi up": 9.0},
    }
    assert not compared(proof, tmp_path / "none", file)["found"]
    failed = {**REHEARSED, "steps": [{"name": "leak check", "ok": False, "seconds": 1.0}]}
    rehearsal.write_text(json.dumps(failed))
    passed = report(step("pulumi up"), resources={}, warnings=[])
    assert (
        "only the rehearsal failed: leak check" in compared(passed, rehearsal, file)["differences"]
    )


def test_the_report_answers_every_question_of_the_form() -> None:
    """With one of its answers where it offers some."""
    form = yaml.safe_load((ROOT / ".github/ISSUE_TEMPLATE/real-cloud-run.yaml").read_text())
    parts = {part["id"]: part["attributes"] for part in form["body"] if "id" in part}
    text = markdown(report(step("pulumi up"), step("GPU job", "failed", "no GPU"),
                           step("pulumi destroy")))  # fmt: skip
    titles = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    assert titles[:5] == [attributes["label"] for attributes in parts.values()]
    assert f"{parts['furthest']['label']}\n\npulumi up\n" in text
    everything = report(step("pulumi up"), step("pulumi destroy"), exit=0)
    assert f"{parts['furthest']['label']}\n\npulumi destroy\n" in markdown(everything)
    assert {"pulumi up", "pulumi destroy"} <= {*parts["furthest"]["options"]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--pool", "none"], "--pool none: is not a pool of dev; its pools: train-gpu"),
        (["--max-cost", "0"], "0.0 is not in the range x>0."),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the engine is asked."""
    assert main(["prove", "dev", *options]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Protection: false", "Protection: true", "cluster.deletionProtection is on"),
        ("config:\n", "config:\n  gpu-cluster:teams: {secure: 'v1:a:b'}\n",
         "gpu-cluster:teams: is encrypted as a whole"),
    ],
)  # fmt: skip
def test_a_stack_that_a_proof_may_not_change_is_refused(
    old: str, new: str, message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """It says how it can be proven nevertheless."""
    text = (ROOT / "examples/stacks/Pulumi.dev.yaml").read_text()
    text = text.replace(old, new, 1)
    (tmp_path / "Pulumi.dev.yaml").write_text(text)
    monkeypatch.setenv("GPU_CLUSTER_STACKS", str(tmp_path))
    assert main(["prove", "dev"]) == 2
    assert message in capsys.readouterr().err


def test_both_limits_are_asked_for_once_the_price_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where there is a terminal; elsewhere both have to be given, and so has --yes."""
    bill, given = bill_at("dev", config_of("dev")), dict.fromkeys(("max_cost", "max_minutes"))
    with pytest.raises(CheckError, match="no terminal to ask for --max-cost and --max-minutes"):
        prove._limits(bill, {**given, "hourly": None})
    monkeypatch.setattr(prove.sys.stdin, "isatty", lambda: True, raising=False)
    asked: list[str] = []

    def answer(question: str, *, default: float, **_: Any) -> float:
        assert capsys.readouterr().out.startswith("price: $") or asked
        asked.append(question)
        return default

    monkeypatch.setattr(prove.click, "prompt", answer)
    limits = prove._limits(bill, {**given, "hourly": 4.0})
    assert (asked, limits) == (
        ["most minutes", "most dollars"], Limits(cost=12, minutes=180, hourly=4),
    )  # fmt: skip
    monkeypatch.setattr(prove.click, "confirm", lambda *_, **__: False)
    with pytest.raises(CheckError, match="not begun, and nothing was created"):
        prove._confirm("dev", bill, limits, 120, yes=False)
    prove._confirm("dev", bill, limits, 120, yes=True)
    assert "may go on for up to 120 minutes" in capsys.readouterr().out


@pytest.mark.parametrize(("stack", "minutes"), [("dev", 120), ("train", 90), ("onprem", 30)])
def test_an_operation_may_outlast_the_limit_by_its_timeout(stack: str, minutes: int) -> None:
    """Which grows with the pool."""
    assert longest_wait(read(stack)[1]) == minutes


@pytest.mark.parametrize(
    ("streams", "remaining"), [(None, 0), ([], 0), (["last"], 1), (ValueError, 1)]
)
def test_a_log_group_that_eks_creates_again_is_named(
    streams: Any, remaining: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty one is deleted; what AWS does not tell is named as well."""
    name, deleted = "/aws/eks/k8s-ml/cluster", []
    groups = [{"logGroupName": f"{name}-2"}, *([] if streams is None else [{"logGroupName": name}])]

    class Logs:
        def describe_log_groups(self, **_: str) -> Any:
            if streams is ValueError:
                raise NoCredentialsError
            return {"logGroups": groups}

        def describe_log_streams(self, **_: Any) -> Any:
            return {"logStreams": streams}

        def delete_log_group(self, **given: str) -> None:
            deleted.append(given["logGroupName"])

    class Session:
        def client(self, *_: str, **__: object) -> Logs:
            return Logs()

    monkeypatch.setattr(log_group, "session", lambda *_: Session())
    found = log_group.remaining_logs(read("train")[1], None)
    assert (len(found), deleted) == (remaining, [name] if streams == [] else [])
    assert all(name in line for line in found)
    assert log_group.remaining_logs(read("on-eks")[1], None) == []


def test_what_the_cluster_needs_is_looked_for_before_it_exists(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command that signs in."""
    monkeypatch.delenv("REHEARSAL", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["prove", "dev", "--unprotect"]) == 2
    assert "gke-gcloud-auth-plugin, which is not on PATH" in capsys.readouterr().err
