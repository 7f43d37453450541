"""No two stacks of a folder declare the same cluster."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.components.settings.owners import owned, shared
from gpu_cluster.stacks.definition.files import SAMPLES
from gpu_cluster.stacks.definition.names import StackError
from gpu_cluster.stacks.definition.owners import refuse_shared
from gpu_cluster.stacks.definition.settings import config_of
from gpu_cluster.stacks.outcome import CheckError

ROOT = Path(__file__).resolve().parents[3]


def written(folder: Path, stack: str, config: Any) -> Any:
    (folder / f"Pulumi.{stack}.yaml").write_text(yaml.safe_dump({"config": config}))
    return config


def gke(**cluster: Any) -> dict[str, Any]:
    known = {"platform": "gke", "name": "gpu-dev", "location": "us-central1-a"}
    return {"gcp:project": "p", "gpu-cluster:cluster": known | cluster}


def eks(region: str = "us-east-1", **more: Any) -> dict[str, Any]:
    return {"aws:region": region, "gpu-cluster:cluster": {"platform": "eks", "name": "a"}} | more


def test_a_copy_that_keeps_the_name_is_refused(tmp_path: Path) -> None:
    """Both files are named, and what to change."""
    written(tmp_path, "dev", gke())
    mine = written(tmp_path, "staging", gke())
    with pytest.raises(StackError) as refused:
        refuse_shared(tmp_path, "staging", mine)
    assert str(refused.value) == (
        "Pulumi.staging.yaml and Pulumi.dev.yaml declare the same cluster, gpu-dev in "
        "us-central1-a: give one of them another cluster.name"
    )
    with pytest.raises(CheckError, match="declare the same cluster"):
        config_of("staging", tmp_path)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (gke(), gke(name="gpu-qa")),
        (gke(), gke(location="europe-west4")),
        (gke(), gke() | {"gcp:project": "q"}),
        (eks(), eks("us-west-2")),
        (eks(), eks(**{"aws:profile": "prod"})),
        (eks(), gke(name="a")),
        ({"gpu-cluster:cluster": {"platform": "existing", "name": "a"}},) * 2,
        ({"gpu-cluster:cluster": {"platform": "gke"}},) * 2,
    ],
)
def test_what_differs_stands_side_by_side(tmp_path: Path, one: Any, other: Any) -> None:
    """Another name, place, project or account is another cluster; one that is there is nobody's."""
    written(tmp_path, "one", one)
    refuse_shared(tmp_path, "other", written(tmp_path, "other", other))


def test_a_cluster_is_the_same_in_either_mode(tmp_path: Path) -> None:
    """Standard and Autopilot share their names."""
    assert owned(gke()) == owned(gke(platform="gke-autopilot"))
    written(tmp_path, "one", gke(platform="gke-autopilot"))
    with pytest.raises(StackError, match="declare the same cluster"):
        refuse_shared(tmp_path, "other", written(tmp_path, "other", gke()))


def test_another_stacks_broken_file_is_its_own_matter(tmp_path: Path) -> None:
    """It does not stand in the way of this one."""
    (tmp_path / "Pulumi.broken.yaml").write_text("config: [")
    refuse_shared(tmp_path, "dev", written(tmp_path, "dev", gke()))


def test_a_copy_without_the_namespace_is_refused(tmp_path: Path) -> None:
    """The engine gives `cluster` the namespace of the project."""
    bare = {key.removeprefix("gpu-cluster:"): value for key, value in gke().items()}
    written(tmp_path, "dev", bare)
    with pytest.raises(StackError, match="declare the same cluster"):
        refuse_shared(tmp_path, "staging", written(tmp_path, "staging", gke()))


def engine(config: dict[str, Any]) -> dict[str, str]:
    """As the engine passes a config."""
    return {key: v if isinstance(v, str) else json.dumps(v) for key, v in config.items()}


ROLES = {"aws:assumeRoles": [{"roleArn": "arn:aws:iam::123456789012:role/r"}]}


@pytest.mark.parametrize("config", [gke(), eks(), eks(**ROLES)])
def test_the_engine_itself_warns_of_a_copy(tmp_path: Path, config: dict[str, Any]) -> None:
    """`pulumi up` asks none of our commands; a file of its own, or a broken one, is no copy."""
    written(tmp_path, "dev", config)
    (tmp_path / "Pulumi.broken.yaml").write_text("config: [ gpu-dev, a")
    (tmp_path / "Pulumi.list.yaml").write_text("[gpu-dev, a]")
    (tmp_path / "Pulumi.yaml").write_text("name: gpu-dev\nruntime: python\n")
    assert list(shared(tmp_path, "dev", engine(config))) == []
    (line,) = shared(tmp_path, "staging", engine(config))
    name, place = ("gpu-dev", "us-central1-a") if "gcp:project" in config else ("a", "us-east-1")
    assert line == (
        f"Pulumi.dev.yaml creates this stack's cluster too, {name} in {place}: a destroy of "
        "either deletes it for both; give one of them another cluster.name"
    )
    other = {**config, "gpu-cluster:cluster": {**config["gpu-cluster:cluster"], "name": "b"}}
    assert list(shared(tmp_path, "staging", engine(other))) == []


@pytest.mark.parametrize("text", ["{{ x }}", "[a", "[" * 9000])
def test_a_value_that_only_looks_like_json_is_text(tmp_path: Path, text: str) -> None:
    """Another namespace has what it likes, such as a template."""
    config = written(tmp_path, "dev", gke()) | {"other:template": text}
    assert len(list(shared(tmp_path, "staging", engine(config)))) == 1


@pytest.mark.parametrize("stack", SAMPLES)
def test_the_samples_do_not_share(stack: str) -> None:
    """Each of the project's own makes a cluster of its own."""
    refuse_shared(ROOT, stack, config_of(stack))
