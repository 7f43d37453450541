"""The resources of the sample stacks as inputs of a provider's `Check`: the start of all cases."""

import asyncio
import contextvars
import runpy
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulumi
import yaml
from pulumi.runtime import mocks, stack

from gpu_cluster.stacks.definition.files import EXAMPLES, ROOT, SAMPLES
from gpu_cluster.stacks.definition.settings import NOWHERE, flat, is_existing
from quality.platforms import OUTPUTS

BEYOND = Path(__file__).with_name("beyond_the_samples.yaml")
"""Package -> resource type -> inputs, for types and inputs that no sample declares."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """One resource, with its inputs in camelCase."""

    stack: str
    """The sample that declares it; empty if none does."""
    token: str
    name: str
    inputs: Mapping[str, Any]


def declared(package: str) -> list[Declared]:
    """A package's resources in the samples, each set of inputs once, in the samples' order."""
    found = [
        row for sample in SAMPLES for row in _of(sample) if row.token.startswith(f"{package}:")
    ]
    tokens = {resource.token for resource in found}
    for token, inputs in yaml.safe_load(BEYOND.read_text()).get(package, {}).items():
        if token in tokens:
            raise ValueError(f"{BEYOND.name}: a sample declares {token} by now; drop it")
        found.append(Declared(stack="", token=token, name="sample", inputs=inputs))
    seen: dict[tuple[str, frozenset[str]], Declared] = {}
    for item in found:
        seen.setdefault((item.token, frozenset(_paths(item.inputs))), item)
    return list(seen.values())


def _paths(value: Any, path: str = "") -> list[str]:
    if isinstance(value, Mapping):
        return [found for name, inner in value.items() for found in _paths(inner, f"{path}.{name}")]
    if isinstance(value, list):
        return [path, *(deep for item in value for deep in _paths(item, f"{path}[]"))]
    return [path]


def _of(sample: str) -> list[Declared]:
    found: list[Declared] = []

    class Answers(pulumi.runtime.Mocks):
        def new_resource(self, args: Any) -> tuple[str | None, dict[Any, Any]]:
            found.append(
                Declared(stack=sample, token=args.typ, name=args.name, inputs=dict(args.inputs))
            )
            return f"{args.name}-id", {**args.inputs, **OUTPUTS.get(args.typ, {})}

        def call(self, args: Any) -> Any:
            raise AssertionError(f"the program called {args.token}")

    async def program() -> None:
        runpy.run_path(str(ROOT / "__main__.py"), run_name="__main__")

    def run(config: Mapping[str, str]) -> None:
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        try:
            mocks.set_mocks(Answers(), "gpu-cluster", sample, False)
            pulumi.runtime.set_all_config(dict(config))
            loop.run_until_complete(stack.run_pulumi_func(program))
        finally:
            loop.close()
            asyncio.set_event_loop(None)

    with tempfile.NamedTemporaryFile("w", suffix=".kubeconfig") as kubeconfig:
        kubeconfig.write(NOWHERE)
        kubeconfig.flush()
        # The SDK keeps its state in context variables: a new context is a new engine.
        contextvars.copy_context().run(run, _config(sample, kubeconfig.name))
    # Independent resources are registered in any order.
    return sorted(found, key=lambda resource: (resource.token, resource.name))


def _config(sample: str, kubeconfig: str) -> dict[str, str]:
    values = yaml.safe_load((EXAMPLES / f"Pulumi.{sample}.yaml").read_text())["config"]
    if is_existing(values):
        values["gpu-cluster:cluster"]["kubeconfigFile"] = kubeconfig
    return flat(values)
