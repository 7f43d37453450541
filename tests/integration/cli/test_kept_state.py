"""A state that may be kept in a repository: no secret in it, and nothing that providers refuse."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pulumi import _types

from gpu_cluster.cli.ci.kept_state import opened
from gpu_cluster.cli.main import main
from gpu_cluster.rehearsal.sandbox import ROOT
from tests.unit.cli.test_kept_state import CLUSTER, SECRET, SIGNATURE

FIXTURES = sorted((ROOT / "tests" / "fixtures").glob("state-*.json"))


def encrypted(value: Any) -> Any:
    """The state as `pulumi stack export` writes it without `--show-secrets`."""
    if isinstance(value, dict):
        if value.get(SIGNATURE) == SECRET:
            return {SIGNATURE: SECRET, "ciphertext": "v1:bm9uY2U=:Y2lwaGVydGV4dA=="}
        return {name: encrypted(each) for name, each in value.items()}
    return [encrypted(each) for each in value] if isinstance(value, list) else value


def states() -> Iterator[Any]:
    """Of all five environments, exported with their secrets and without."""
    for file in FIXTURES:
        state = json.loads(file.read_text())
        yield pytest.param(state, id=f"{file.stem} plain")
        yield pytest.param(encrypted(state), id=f"{file.stem} encrypted")


def rows(state: Any) -> Iterator[dict[str, Any]]:
    yield from state["deployment"]["resources"]


def fits(value: Any, kind: Any) -> bool:
    """Whether a plain value has the kind that the SDK says."""
    if isinstance(kind, type) and _types.is_output_type(kind):
        members = _types.output_type_types(kind)
        return isinstance(value, dict) and all(fits(value[n], k) for n, k in members.items())
    if getattr(kind, "__origin__", None) is not None:
        return isinstance(value, dict if "Mapping" in str(kind) else list)
    return isinstance(value, kind)


@pytest.mark.parametrize("state", [*states()])
def test_every_secret_output_has_the_shape_that_the_sdk_says(state: Any) -> None:
    """Maps are maps and objects have their members: providers refuse a text there."""
    from gpu_cluster.cli.ci.kept_state import _property_kinds

    seen = 0
    for before, after in zip(rows(state), rows(opened(state)), strict=True):
        kinds = _property_kinds(before["type"])
        for name, value in (before.get("outputs") or {}).items():
            if isinstance(value, dict) and value.get(SIGNATURE) == SECRET and name in kinds:
                assert fits(after["outputs"][name], kinds[name]), (before["urn"], name)
                seen += 1
    secrets = [row for row in rows(state) if SIGNATURE in json.dumps(row.get("outputs"))]
    assert seen or not any(row["type"] == CLUSTER for row in secrets)


@pytest.mark.parametrize("state", [*states()])
def test_no_secret_is_left(state: Any) -> None:
    """Neither encrypted nor in plain text, and no way to a key."""
    text = json.dumps(opened(state))
    assert not [
        word for word in (SIGNATURE, "ciphertext", "plaintext", "secrets_providers") if word in text
    ]


def test_the_command_prints_what_may_be_kept(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """And says in one line what is no export."""

    def run(text: str) -> tuple[int, str, str]:
        file = tmp_path / "export.json"
        file.write_text(text)
        return main(["ci", "open-state", str(file)]), *capfd.readouterr()

    state = json.loads(FIXTURES[0].read_text())
    assert json.loads(run(json.dumps(state))[1]) == opened(state)
    for text, says in (("{}", "has no deployment"), ("x", "is not JSON")):
        code, out, error = run(text)
        assert (code, out) == (2, "")
        assert error.endswith(f"{says}; give what pulumi stack export prints\n")
        assert error.count("\n") == 1
