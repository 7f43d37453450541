"""The table of platforms: which there are, and where that stands in which they differ.

A platform is a folder of `components/` and a row here. What the folder declares, and what the rooms
above know of it, are modules: named here, imported when they are asked for, since SDKs are large.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

# The table itself is read where nothing is declared.
if TYPE_CHECKING:
    from .access import Access
    from .cluster import Cluster, Metrics, ResolvedPool, Runs


class PlatformSettings(Protocol):
    """What users say of a cluster and its pools, checked and resolved."""

    @property
    def cluster(self) -> Any:
        """The cluster's args; `name` is what every platform's have."""

    @property
    def pools(self) -> "Mapping[str, ResolvedPool[Any]]": ...

    @property
    def metrics(self) -> "Metrics": ...

    @property
    def access(self) -> "Access":
        """What its pods can be given."""

    def warnings(self, runs: "Runs") -> list[str]:
        """What every preview and `gpu-cluster validate` warn of, each line with its key's path;
        `runs`: in the cluster."""


class SettingsModule(Protocol):
    """`settings.py` of a platform's folder: imports no SDK of a cloud."""

    CLUSTER: type[Any]
    """Args that `gpu-cluster:cluster` is decoded into."""
    POOL: type[Any]
    """Args that each of `gpu-cluster:gpuPools` is decoded into."""

    def resolve(
        self, config: Mapping[str, str], cluster: Any, pools: Mapping[str, Any]
    ) -> PlatformSettings:
        """The decoded args, with what the engine's `config` has of other namespaces.

        Raises ValueError with one line that begins with the key's path.
        """


class ProgramModule(Protocol):
    """`platform.py` of a platform's folder."""

    def declare(self, settings: Any, runs: "Runs") -> "Cluster":
        """Declares the cluster and its pools from the folder's own settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """Where a platform's parts stand."""

    title: str
    """Its name, at the head of its pages."""
    folder: str
    """In `components/`, with `settings.py` and `platform.py`."""
    cloud: str | None
    """In whose cloud the stack creates resources; None if in none."""
    owned: bool = True
    """Whether the stack creates the cluster; otherwise somebody else did."""
    account: tuple[str, ...] = ()
    """Config keys that say whose cloud it is, as far as its files do."""
    home: tuple[str, ...] = ()
    """Config keys that, with account and name, tell the cluster from any other."""
    cost: str = ""
    """Module that prices a stack (`stacks.cost.bill.Prices`); none without a cloud."""
    capacity: str = ""
    """Module that knows what to ask the cloud (`stacks.capacity.questions.Capacity`)."""
    environment: str = ""
    """Module that writes the file of a new stack (`stacks.environments.new_stack.Environment`)."""
    gpu_pool: str = ""
    """Type of the component that declares a GPU pool; none if the stack creates no pools."""
    measures: str = ""
    """Module that knows how it is measured (`quality.platforms.Measured`); none without pools."""
    inventory: str = ""
    """Module that reads an existing cluster of a cloud for its inventory; none for others."""
    rehearsal: str
    """Module that simulates it (`rehearsal.cloud_simulators.Simulator`)."""

    @property
    def added(self) -> bool:
        """Whether the stack adds pools to a cluster of its cloud that somebody else created: what
        is not of the cluster itself is as on the platform of the same name."""
        return self.cloud is not None and not self.owned

    @property
    def settings(self) -> SettingsModule:
        return cast(SettingsModule, import_module(f".{self.folder}.settings", __package__))

    @property
    def program(self) -> ProgramModule:
        return cast(ProgramModule, import_module(f".{self.folder}.platform", __package__))


PLATFORMS: Final[Mapping[str, Platform]] = MappingProxyType({
    "gke": Platform(
        title="GKE Standard",
        folder="gke",
        cloud="google",
        home=("gcp:project", "cluster.location"),
        cost="stacks.cost.gke",
        capacity="stacks.capacity.gke",
        environment="stacks.environments.gke",
        gpu_pool="gpu-cluster:gke:GpuNodePool",
        measures="quality.platforms.gke",
        rehearsal="rehearsal.platforms.google",
    ),
    "gke-existing": Platform(
        title="GKE Standard, a cluster that exists already",
        folder="gke_existing",
        cloud="google",
        owned=False,
        home=("gcp:project", "cluster.location"),
        cost="stacks.cost.gke",
        capacity="stacks.capacity.gke",
        environment="stacks.environments.gke",
        inventory="rehearsal.inventory_gke",
        rehearsal="rehearsal.platforms.google",
    ),
    "gke-autopilot": Platform(
        title="GKE Autopilot",
        folder="gke_autopilot",
        cloud="google",
        home=("gcp:project", "cluster.location"),
        cost="stacks.cost.gke_autopilot",
        capacity="stacks.capacity.gke_autopilot",
        environment="stacks.environments.gke_autopilot",
        rehearsal="rehearsal.platforms.google",
    ),
    "eks": Platform(
        title="EKS",
        folder="eks",
        cloud="aws",
        account=("aws:profile", "aws:assumeRoles"),
        home=("aws:region",),
        cost="stacks.cost.eks",
        capacity="stacks.capacity.eks",
        environment="stacks.environments.eks",
        gpu_pool="gpu-cluster:eks:GpuNodeGroup",
        measures="quality.platforms.eks",
        rehearsal="rehearsal.platforms.aws",
    ),
    "eks-existing": Platform(
        title="EKS, a cluster that exists already",
        folder="eks_existing",
        cloud="aws",
        owned=False,
        account=("aws:profile", "aws:assumeRoles"),
        home=("aws:region",),
        cost="stacks.cost.eks",
        capacity="stacks.capacity.eks",
        environment="stacks.environments.eks_existing",
        inventory="rehearsal.inventory_eks",
        rehearsal="rehearsal.platforms.aws",
    ),
    "existing": Platform(
        title="An existing cluster",
        folder="existing",
        cloud=None,
        owned=False,
        environment="stacks.environments.existing",
        rehearsal="rehearsal.platforms.existing",
    ),
})  # fmt: skip
"""`cluster.platform`, as users write it -> the platform; with `cluster.existing`, the key is
`<platform>-existing`."""
WRITTEN = tuple(name for name in PLATFORMS if not name.endswith("-existing"))
"""What users can write in `cluster.platform`."""


def platform_in(cluster: Mapping[str, Any]) -> str:
    """Key of `PLATFORMS` that the settings of a cluster mean, right or wrong."""
    name = str(cluster.get("platform"))
    return f"{name}-existing" if f"{name}-existing" in PLATFORMS and "existing" in cluster else name
