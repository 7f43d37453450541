"""Rehearsals of `Pulumi.dev.yaml` with one thing wrong, in the program or in the cloud."""

import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from rehearsal.cloud import Faults
from rehearsal.program import Mutation
from rehearsal.scenario import Rehearsal
from rehearsal.stage import Stage

Rehearse = Callable[..., Rehearsal]


@pytest.fixture
def rehearse(tmp_path: Path) -> Iterator[Rehearse]:
    """Rehearses the dev stack up to the point where its workloads run, or cannot."""
    stages: list[Stage] = []

    def run(*mutations: Mutation, faults: Faults | None = None, deadline: float = 45) -> Rehearsal:
        def mutate(program: Path) -> None:
            for mutation in mutations:
                mutation(program)

        stage = Stage("dev", folder=tmp_path / "stage", faults=faults, mutate=mutate)
        stages.append(stage)
        stage.start()
        rehearsal = Rehearsal(stage=stage, deadline=deadline)
        rehearsal.quickly()
        return rehearsal

    yield run
    for stage in stages:
        stage.stop()


def changed(resource_type: str, code: str, *, name: str = "") -> Mutation:
    """A mutation of the program: `code` changes `props` of every resource of this type.

    It runs where the resource is registered, so it holds however the program is written.
    """
    condition = f"args.type_ == {resource_type!r}" + (f" and args.name == {name!r}" if name else "")
    prologue = (
        "import pulumi\n\n\n"
        "def _mutation(args):\n"
        f"    if {condition}:\n"
        "        props = args.props\n"
        f"{textwrap.indent(textwrap.dedent(code).strip(), ' ' * 8)}\n"
        "    return pulumi.ResourceTransformationResult(args.props, args.opts)\n\n\n"
        "pulumi.runtime.register_stack_transformation(_mutation)\n"
    )

    def mutate(program: Path) -> None:
        main = program / "__main__.py"
        main.write_text(prologue + main.read_text())

    return mutate


def configured(change: Callable[[dict], None]) -> Mutation:
    """A mutation of the stack's file; `change` gets its `config`."""

    def mutate(program: Path) -> None:
        file = program / "Pulumi.dev.yaml"
        document = yaml.safe_load(file.read_text())
        change(document["config"])
        file.write_text(yaml.safe_dump(document, sort_keys=False))

    return mutate
