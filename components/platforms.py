"""The table of platforms, with the location of everything that differs between them.

A platform is a folder of `components/` and a row here. The parts that the folder declares, and
those of the packages above that depend on the platform, are modules: they are named here and
imported on demand, because SDKs are large.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

# Not imported at runtime: the table is also used by commands that declare nothing.
if TYPE_CHECKING:
    from .access.service_accounts import Access
    from .cluster import Cluster, Metrics, ResolvedPool, Runs
    from .schema.refusal import Refusals


class PlatformSettings(Protocol):
    """The settings of a cluster and its pools, checked and resolved."""

    @property
    def cluster(self) -> Any:
        """The cluster's args; all platforms have `name`."""

    @property
    def pools(self) -> "Mapping[str, ResolvedPool[Any]]": ...

    @property
    def metrics(self) -> "Metrics": ...

    @property
    def access(self) -> "Access":
        """The access that its pods can get."""

    def warnings(self, runs: "Runs") -> list[str]:
        """The warnings of every preview and of `gpu-cluster validate`, each with its key's path;
        `runs`: what will run in the cluster."""


class SettingsModule(Protocol):
    """`settings.py` in a platform's folder: imports no cloud SDK."""

    CLUSTER: type[Any]
    """The args class of `gpu-cluster:cluster`."""
    POOL: type[Any]
    """The args class of each entry of `gpu-cluster:gpuPools`."""

    def account(self, config: Mapping[str, str]) -> object:
        """Checks the provider's settings, whatever the cluster's are."""

    def resolve(
        self,
        config: Mapping[str, str],
        cluster: Any,
        pools: Mapping[str, Any],
        refusals: "Refusals",
    ) -> PlatformSettings:
        """Combines the decoded args with other namespaces of the engine's `config`.

        Adds to `refusals` what does not keep other checks from being made, and raises the rest.
        """


class ProgramModule(Protocol):
    """`platform.py` in a platform's folder."""

    def declare(self, settings: Any, runs: "Runs") -> "Cluster":
        """Declares the cluster and its pools from the settings of the same folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """The location of a platform's parts."""

    title: str
    """Its name in the titles of its pages."""
    folder: str
    """The folder in `components/`, with `settings.py` and `platform.py`."""
    cloud: str | None
    """The cloud in which the stack creates resources; None if there is none."""
    owned: bool = True
    """Whether the stack creates the cluster; otherwise, it is an existing one."""
    instead_of_existing: str = ""
    """What to do about `cluster.existing` on a platform that does not have it."""
    account: tuple[str, ...] = ()
    """Config keys that identify the cloud account, as far as its files do."""
    home: tuple[str, ...] = ()
    """Config keys that, with account and name, identify the cluster."""
    cost: str = ""
    """Module that prices a stack (`stacks.cost.bill.Prices`); empty without a cloud."""
    capacity: str = ""
    """Module with the questions to the cloud (`stacks.capacity.questions.Capacity`)."""
    environment: str = ""
    """Module that writes the file of a new stack (`stacks.environments.new_stack.Environment`)."""
    inventory: str = ""
    """Module that reads an existing cluster from a cloud for its inventory; empty for others."""
    rehearsal: str
    """Module that simulates it (`rehearsal.platforms.simulator.Simulator`)."""

    @property
    def added(self) -> bool:
        """Whether the stack adds pools to an existing cluster in its cloud: everything except the
        cluster itself is like on the platform of the same name."""
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
        cost="gpu_cluster.stacks.cost.gke",
        capacity="gpu_cluster.stacks.capacity.gke",
        environment="gpu_cluster.stacks.environments.gke",
        rehearsal="gpu_cluster.rehearsal.platforms.google",
    ),
    "gke-existing": Platform(
        title="GKE Standard, a cluster that exists already",
        folder="gke_existing",
        cloud="google",
        owned=False,
        home=("gcp:project", "cluster.location"),
        cost="gpu_cluster.stacks.cost.gke",
        capacity="gpu_cluster.stacks.capacity.gke",
        environment="gpu_cluster.stacks.environments.gke",
        inventory="gpu_cluster.rehearsal.existing.inventory_gke",
        rehearsal="gpu_cluster.rehearsal.platforms.google",
    ),
    "gke-autopilot": Platform(
        title="GKE Autopilot",
        folder="gke_autopilot",
        cloud="google",
        instead_of_existing=(
            "an Autopilot cluster starts nodes itself, so for jobs in one that exists, write "
            "cluster: { platform: existing, name: NAME, context: CONTEXT }, with its context in "
            "your kubeconfig, and pools with nodeSelector and devicePlugin: none"
        ),
        home=("gcp:project", "cluster.location"),
        cost="gpu_cluster.stacks.cost.gke_autopilot",
        capacity="gpu_cluster.stacks.capacity.gke_autopilot",
        environment="gpu_cluster.stacks.environments.gke_autopilot",
        rehearsal="gpu_cluster.rehearsal.platforms.google",
    ),
    "eks": Platform(
        title="EKS",
        folder="eks",
        cloud="aws",
        account=("aws:profile", "aws:assumeRoles"),
        home=("aws:region",),
        cost="gpu_cluster.stacks.cost.eks",
        capacity="gpu_cluster.stacks.capacity.eks",
        environment="gpu_cluster.stacks.environments.eks",
        rehearsal="gpu_cluster.rehearsal.platforms.aws",
    ),
    "eks-existing": Platform(
        title="EKS, a cluster that exists already",
        folder="eks_existing",
        cloud="aws",
        owned=False,
        account=("aws:profile", "aws:assumeRoles"),
        home=("aws:region",),
        cost="gpu_cluster.stacks.cost.eks",
        capacity="gpu_cluster.stacks.capacity.eks",
        environment="gpu_cluster.stacks.environments.eks_existing",
        inventory="gpu_cluster.rehearsal.existing.inventory_eks",
        rehearsal="gpu_cluster.rehearsal.platforms.aws",
    ),
    "existing": Platform(
        title="An existing cluster",
        folder="existing",
        cloud=None,
        owned=False,
        instead_of_existing=(
            "the kubeconfig says which cluster it is, so set context to the cluster's context in "
            "it; or set platform: gke or eks, with which the stack creates GPU pools in the cluster"
        ),
        environment="gpu_cluster.stacks.environments.existing",
        rehearsal="gpu_cluster.rehearsal.platforms.existing",
    ),
})  # fmt: skip
"""`cluster.platform`, as users write it -> the platform; with `cluster.existing`, the key is
`<platform>-existing`."""
WRITTEN = tuple(name for name in PLATFORMS if not name.endswith("-existing"))
"""The values that users can write in `cluster.platform`."""


def platform_in(cluster: Mapping[str, Any]) -> str:
    """The key of `PLATFORMS` for the settings of a cluster, valid or not."""
    name = str(cluster.get("platform"))
    return f"{name}-existing" if f"{name}-existing" in PLATFORMS and "existing" in cluster else name
