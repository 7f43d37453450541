"""The type check reads of the clouds' SDKs what the program uses, and nothing else."""

from pathlib import Path

import pytest
from mypy.config_parser import parse_config_file
from mypy.options import Options

from gpu_cluster.stacks.definition.files import ROOT
from quality.sdk_modules import SdkModules, modules


def test_modules_of_an_sdk_are_read_from_their_first_use_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module that is not read would be Any: a misspelt argument of its classes would pass. Those
    that are not used are too large to be read for nothing."""
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "first.py").write_text(
        "import pulumi_gcp as gcp, pulumi_kubernetes as kubernetes\n"
        "gcp.filestore.Instance('a')\nkubernetes.apps.v1.Deployment('a')\n"
    )
    monkeypatch.chdir(tmp_path)
    options = Options()
    parse_config_file(options, lambda: None, str(ROOT / "pyproject.toml"))
    options.packages = ["room"]
    SdkModules(options)
    follows = [
        options.clone_for_module(name).follow_imports
        for name in ("pulumi_gcp.filestore.instance", "pulumi_kubernetes.apps.v1._inputs",
                     "pulumi_gcp._utilities", "pulumi_gcp.sql", "pulumi_kubernetes.apps.v1beta1")
    ]  # fmt: skip
    assert follows == ["normal", "normal", "normal", "skip", "skip"]


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("import pulumi_aws as aws\naws.rds.Instance('a')", "pulumi_aws.rds"),
        ("from pulumi_gcp import sql", "pulumi_gcp.sql"),
        ("from pulumi_gcp.sql import Database", "pulumi_gcp.sql"),
        (
            "import pulumi_kubernetes\npulumi_kubernetes.scheduling.v1.Foo",
            "pulumi_kubernetes.scheduling.v1",
        ),
    ],
)
def test_a_module_is_found(source: str, named: str) -> None:
    """However it is imported."""
    assert named in set(modules(source))
