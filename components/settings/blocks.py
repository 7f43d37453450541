"""The table of blocks: the keys of a stack's config that are the same on every platform.

A block that runs pods is a row here, with an args class and a module that declares it. All other
code that reads, prices, documents or changes a stack uses the row.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from ..access.service_accounts import ServiceAccountArgs
from ..batch.batch_args import BatchArgs
from ..batch.load import Available, read_gpu_test, read_services, read_training_jobs, read_workloads
from ..batch.team_args import TeamArgs
from ..batch.training_args import TrainingArgs
from ..cluster import GpuPool
from ..gpu.acceptance_args import GpuTestArgs
from ..gpu.images_args import ImagesArgs
from ..gpu.monitoring_args import MonitoringArgs
from ..gpu.pod_args import NamespaceArgs
from ..gpu.pod_group import PodGroup
from ..gpu.service_args import ServiceArgs
from ..gpu.volume_args import VolumeClaimArgs
from ..gpu.workload_args import WorkloadArgs
from ..schema.decode import NAMESPACE
from ..schema.limits import DNS_LABEL, POOL_NAME, Limit, matching, none_of, refusal
from ..schema.refusal import Refusal, collected, refuse

if TYPE_CHECKING:
    from ..gpu.prerequisites import Prerequisites


class DeclaringModule(Protocol):
    """The module of a block that runs pods."""

    def declare(self, block: Any, after: "Prerequisites") -> None:
        """Declares what the block runs; `block` is what `RunningBlock.read` returned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A key of `gpu-cluster` in a stack's config."""

    args: type[Any]
    """The args class of the block, or of each of its entries."""
    page: str
    """The page of config keys that documents it."""
    names: Sequence[Limit] | None = None
    """The limits of its entries' names; None if the block has no named entries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningBlock(Block):
    """A block whose pods run in the cluster; `args` has `pod_groups`."""

    read: Callable[[str, Any, Available], Any]
    """Called with the key's path, its value and what pods can use. Returns the args, by name if
    `names` is set; raises `Refusal` for what it does not accept."""
    module: str
    """The `DeclaringModule`. It loads an SDK, so it is imported only for stacks that need it."""
    holds_nodes: bool = True
    """Whether its pods keep nodes that no other block uses, until the block is emptied."""
    protected: bool = False
    """Whether only NetworkPolicies keep other pods from its pods, for as long as it exists. A GPU
    test has one too, for minutes."""

    @property
    def takes_files(self) -> bool:
        """Whether its entries may name files of the repository for volumes."""
        return any(field.name == "volumes" for field in fields(self.args))

    def entries(self, path: str, block: Any) -> dict[str, Any]:
        """Key's path -> args of what the block, whose key is `path`, runs."""
        if self.names is not None:
            return {f"{path}.{name}": args for name, args in block.items()}
        return {} if block is None else {path: block}

    def pod_groups(self, path: str, block: Any, pools: Mapping[str, GpuPool]) -> Iterator[PodGroup]:
        """The pods of the block, whose key is `path`."""
        for key, args in self.entries(path, block).items():
            yield from args.pod_groups(key, pools)

    def declare(self, block: Any, after: "Prerequisites") -> None:
        """Declares what the block runs."""
        module = import_module(self.module)
        cast(DeclaringModule, module).declare(block, after)


def _short_name(what: str, longest: int) -> Limit:
    """A name that is the prefix of others, such as a role's, a Service's or a node pool's."""
    return matching(
        f"{what}; allowed: at most {longest} lowercase letters, digits and '-', a letter first, "
        "no '-' at the end",
        re.compile(f"[a-z](?:[-a-z0-9]{{0,{longest - 2}}}[a-z0-9])?"),
    )


# An IAM role's name begins with the cluster's; a pod's name, of at most 63 characters, consists of
# the job's name, `-workers-0-`, an index and a suffix.
_ACCOUNT_NAME = _short_name("an account's name", 32)
_TEAM_NAME = _short_name("a team's name", 40)
_JOB_NAME = _short_name("a training job's name", 40)
_SERVICE_NAME = _short_name("a service's name", 63)


BLOCKS: Final[Mapping[str, Block]] = MappingProxyType({
    "workloads": RunningBlock(
        args=WorkloadArgs,
        page="workloads",
        names=[DNS_LABEL],
        read=read_workloads,
        module="gpu_cluster.components.gpu.workload",
    ),
    "namespaces": Block(
        args=NamespaceArgs,
        page="workloads",
        names=[DNS_LABEL],
    ),
    "serviceAccounts": Block(
        args=ServiceAccountArgs,
        page="workloads",
        names=[_ACCOUNT_NAME, none_of("default", why="belongs to Kubernetes; choose another")],
    ),
    "volumeClaims": Block(args=VolumeClaimArgs, page="workloads", names=[DNS_LABEL]),
    "batch": Block(args=BatchArgs, page="workloads"),
    "teams": Block(args=TeamArgs, page="workloads", names=[_TEAM_NAME]),
    "trainingJobs": RunningBlock(
        args=TrainingArgs,
        page="workloads",
        names=[_JOB_NAME],
        read=read_training_jobs,
        module="gpu_cluster.components.batch.training",
        protected=True,
    ),
    "services": RunningBlock(
        args=ServiceArgs,
        page="workloads",
        names=[_SERVICE_NAME],
        read=read_services,
        module="gpu_cluster.components.gpu.service",
        protected=True,
    ),
    "images": Block(args=ImagesArgs, page="workloads"),
    "monitoring": Block(args=MonitoringArgs, page="monitoring"),
    "gpuTest": RunningBlock(
        args=GpuTestArgs,
        page="monitoring",
        read=read_gpu_test,
        module="gpu_cluster.components.gpu.acceptance",
        holds_nodes=False,
    ),
})  # fmt: skip
"""Key -> the block, in the order of the pages."""
RUNNING: Final[Mapping[str, RunningBlock]] = MappingProxyType(
    {key: block for key, block in BLOCKS.items() if isinstance(block, RunningBlock)}
)
"""The blocks that run pods."""
ENTRY_NAMES: Final[Mapping[str, Sequence[Limit]]] = MappingProxyType({
    "gpuPools": [POOL_NAME],
    **{key: block.names for key, block in BLOCKS.items() if block.names is not None},
})  # fmt: skip
"""Key -> the limits of its entries' names, on every platform."""


@collected
def check_entry_names(blocks: Mapping[str, Iterable[str]]) -> Iterator[Refusal]:
    """Raises `Refusal` for an entry of a block with an invalid name, and for
    pods with the name of others, also of another block: all would have the same labels."""
    known = dict[str, str]()
    for key, names in ENTRY_NAMES.items():
        for entry in blocks[key]:
            if refused := refusal(names, entry):
                yield refused.under(f"{NAMESPACE}:{key}", entry)
            if key in RUNNING:
                if other := known.get(entry):
                    reason = f"is also a name in {other}"
                    yield refuse(f"{NAMESPACE}:{key}.{entry}")(reason, remedy="choose another")
                known[entry] = key
