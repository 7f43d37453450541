"""What `gpu-cluster recover` asks its user."""

import pytest

from gpu_cluster.cli import recover
from gpu_cluster.tools.sections import DOCS


def test_the_page_has_every_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user reads there what yes leads to. Only y and yes are yes."""
    page = (DOCS / "how-to" / "recover.md").read_text()
    asked: list[str] = []

    def answer(prompt: str) -> str:
        asked.append(prompt.removesuffix(" [y/N] "))
        return "yes" if len(asked) == 1 else "no"

    monkeypatch.setattr("builtins.input", answer)
    assert recover._ask({"urn:pulumi:dev::gpu-cluster::t::n": "projects/p/zones/z/clusters/c"})
    assert not recover._is_over("locked by somebody")
    assert len(asked) == 2
    for question in asked:
        assert f"| `{question}` |" in page
