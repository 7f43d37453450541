"""What the rules ask each cloud's modules, which its row names.

Such a module may have `pool`, `software`, and parts of rules, such as `nodes_private`.
"""

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any

from gpu_cluster.components.catalog.clouds import CLOUDS
from gpu_cluster.policy.pool import Pool, Software
from gpu_cluster.policy.reading import Resource


@cache
def parts(name: str) -> Sequence[Any]:
    """What the modules of all clouds have under this name."""
    modules = [import_module(module) for cloud in CLOUDS.values() for module in cloud.policies]
    return [vars(module)[name] for module in modules if name in vars(module)]


def pool_of(resource: Resource, resources: Sequence[Resource] = ()) -> Pool | None:
    """The resource as a pool; None if it is something else.

    `resources`: those of the stack, which may include a node group's launch template, or the
    cluster that limits a ComputeClass.
    """
    pools = (part(resource, resources) for part in parts("pool"))
    return next((pool for pool in pools if pool is not None), None)


def pools_of(resources: Sequence[Resource]) -> list[Pool]:
    """The pools among the resources."""
    return [pool for resource in resources if (pool := pool_of(resource, resources)) is not None]


def software(pool: Pool, resources: Sequence[Resource], *, maybe: bool) -> Software:
    """What the cloud installs on such nodes. With `maybe`, also what it may install."""
    found = (part(pool, resources, maybe=maybe) for part in parts("software"))
    return next((answer for answer in found if answer is not None), ([], []))
