"""c. `up` with every creation taking its typical time: necessary and unnecessary waiting."""

import tempfile
import textwrap
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from components.catalog.clouds import CLOUDS
from quality.bench import durations
from quality.bench.measure import Comparison, Section
from quality.bench.timing import Span, longest_chain, timed_up
from quality.environments import platform_of, values_of
from quality.platforms import measured
from rehearsal.plugins.faults import Faults
from rehearsal.sandbox import Sandbox, SandboxOptions
from stacks.definition.program import Mutation

CHAIN_LIMIT = 1.05
ORDER_LIMIT = 0.8
STACKS = ("dev", "train")
"""One environment on each cloud that has node pools."""
CLUSTERS = {cloud.cluster for cloud in CLOUDS.values()}

LAYERS = """
import pulumi

SYSTEM, GPU_POOL, GPU_LAYER, WORKLOAD = range(4)
made = {layer: [] for layer in (SYSTEM, GPU_POOL, GPU_LAYER, WORKLOAD)}


def layer_of(args):
    if args.type_ in POOL_TYPES:
        return GPU_POOL if args.name in POOLS else SYSTEM
    if args.type_ == "aws:eks/addon:Addon":
        return SYSTEM
    if args.type_.startswith("kubernetes:"):
        return WORKLOAD if args.name in WORKLOADS else GPU_LAYER
    return None


def wait_for_the_layers_before(args):
    layer = layer_of(args)
    if layer is None:
        return None
    before = [each for lower in range(layer) for each in made[lower]]
    made[layer].append(args.resource)
    return pulumi.ResourceTransformationResult(
        args.props,
        pulumi.ResourceOptions.merge(args.opts, pulumi.ResourceOptions(depends_on=before)),
    )


pulumi.runtime.register_stack_transformation(wait_for_the_layers_before)
"""
"""Inserted at the start of the program: the order of common modules, in which each layer waits for
all of the previous one. The layers: addons and CPU nodes, GPU node groups, what runs on them,
workloads."""


def measure(chosen: Sequence[str], all_at: float | None = None) -> Section:
    """Measures both orders of each environment, one run each, since the durations are given."""
    rows, notes = [], []
    for stack in chosen or STACKS:
        known = measured(platform_of(stack))
        if known is None:
            continue
        scale = all_at or known.SCALE
        ours, chain = _up(stack, scale)
        theirs, _ = _up(stack, scale, mutate=_common_order(stack))
        rows += [
            Comparison(
                what=f"{stack}: all created, against the longest chain",
                unit="s",
                ours=[max(span.ended for span in ours) * scale],
                theirs=[sum(span.seconds for span in chain) * scale],
                limit=CHAIN_LIMIT,
            ),
            Comparison(
                what=f"{stack}: a GPU can be asked for, against the common order",
                unit="s",
                ours=[_gpu_at(stack, ours) * scale],
                theirs=[_gpu_at(stack, theirs) * scale],
                limit=ORDER_LIMIT,
                bound=_least(stack, known.ORDER, ours) / _gpu_at(stack, theirs),
            ),
        ]
        itself = sum(span.seconds for span in chain if span.token in CLUSTERS) * scale
        notes.append(
            f"{stack}, {scale:.0f} times as fast: {itself:.0f} s of both orders are the cluster "
            "itself, which nothing here shortens; the longest chain is "
            + ", ".join(f"{span.name} {span.seconds * scale:.0f} s" for span in chain)
        )
    return Section(
        letter="c",
        title="`up` at the clouds' pace",
        ours="program",
        theirs="see row",
        rows=rows,
        notes=[
            "A GPU can be asked for once the GPU pools with their tags, what installs the driver "
            "or the plugin, the autoscaler and the workloads exist. Then the cloud starts a node, "
            "in both orders alike: 3 to 8 minutes that are not in these figures.",
            "The common order: addons and CPU nodes, then GPU pools, then what runs on them, then "
            "workloads, each waiting for all before. Everything else is as here, also the default "
            "pool of GKE that is created and removed.",
            "Where the ratio is above its limit and at the cloud's own bound, the rest is what the "
            "cloud does in sequence: on EKS the VPC, a subnet, the control plane, the network "
            "plugin, the first nodes and the cluster's DNS on them.",
            *notes,
            *durations.SOURCES,
        ],
    )


def _up(
    stack: str, scale: float, *, mutate: Mutation | None = None
) -> tuple[list[Span], list[Span]]:
    pools = frozenset(values_of(stack)["gpu-cluster:gpuPools"])

    @contextmanager
    def typical(kind: str, urn: str) -> Iterator[None]:
        if kind == "create":
            time.sleep(durations.creation(urn, gpu_pools=pools) / scale)
        yield

    with tempfile.TemporaryDirectory(prefix=f"bench-{stack}-") as folder:
        sandbox = Sandbox(
            stack,
            folder=Path(folder) / "sandbox",
            faults=Faults(around=typical),
            mutate=mutate,
            options=SandboxOptions(scaling=False),
        )
        with sandbox:
            spans = timed_up(sandbox)
            return spans, longest_chain(spans, sandbox.engine.resources())


def _common_order(stack: str) -> Mutation:
    values = values_of(stack)
    names = (
        f"POOL_TYPES = {tuple(durations.GPU_POOLS)!r}\n"
        f"POOLS = {sorted(values['gpu-cluster:gpuPools'])!r}\n"
        f"WORKLOADS = {sorted(values['gpu-cluster:workloads'])!r}\n"
    )

    def mutate(program: Path) -> None:
        main = program / "__main__.py"
        main.write_text(textwrap.dedent(names) + LAYERS + main.read_text())

    return mutate


def _least(stack: str, order: Sequence[str], spans: Sequence[Span]) -> float:
    """Seconds that no order can save, as measured in this run: moto starts with the VPC."""
    pools = set(values_of(stack)["gpu-cluster:gpuPools"])
    return sum(
        min(span.seconds for span in spans if span.token == token and span.name not in pools)
        for token in order
    )


def _gpu_at(stack: str, spans: Sequence[Span]) -> float:
    """Seconds until everything exists that a pod with a GPU needs, except its node."""
    pools = set(values_of(stack)["gpu-cluster:gpuPools"])
    needed = [
        span.ended
        for span in spans
        if span.token.startswith("kubernetes:")
        or span.token == "aws:autoscaling/tag:Tag"
        or (span.token in durations.GPU_POOLS and span.name in pools)
    ]
    return max(needed)
