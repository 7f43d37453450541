"""Errors that a cloud returns: what the user sees, how the stack is restored, what is lost.

The messages are those of the official providers once their own retries have failed.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from components.catalog.clouds import CLOUDS
from quality.faults.fault_injector import Moment
from quality.faults.fault_run import TRIES, FaultResult, FaultRunner, NotRecovered
from rehearsal.engine import Outcome
from stacks.engine.urn import Urn


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault during an operation."""

    name: str
    says: dict[str, str]
    """Package (`gcp`, `aws`, `kubernetes`) -> the error; no errors for missing packages."""
    on: tuple[str, ...] = ()
    """Resource types with the fault; all, if empty."""
    first: int = 1
    """The first operation with the fault, of those on these types."""
    last: int = 1
    moment: Moment = "asked"
    command: str = "up"


_CLUSTERS = tuple(cloud.cluster for cloud in CLOUDS.values())
_POOLS = tuple(cloud.node_pool for cloud in CLOUDS.values())
_EVER = 10_000

_EXPIRED = {
    "gcp": "googleapi: Error 401: Request had invalid authentication credentials. Expected OAuth 2 "
    "access token, login cookie or other valid authentication credential., authError",
    "aws": "operation error: https response error StatusCode: 400, ExpiredTokenException: The "
    "security token included in the request is expired",
    "kubernetes": "Unauthorized",
}

_UNAVAILABLE = {
    "gcp": "googleapi: Error 503: The service is currently unavailable., backendError",
    "aws": "operation error: https response error StatusCode: 503, ServiceUnavailableException: "
    "Service is unavailable",
    "kubernetes": "the server is currently unable to handle the request",
}

FAULTS = (
    Fault(
        name="throttled, also after the provider's own retries",
        says={
            "gcp": "googleapi: Error 429: Quota exceeded for quota metric 'Mutate requests', "
            "rateLimitExceeded",
            "aws": "operation error: exceeded maximum number of attempts, 25, https response error "
            "StatusCode: 400, ThrottlingException: Rate exceeded",
            "kubernetes": "the server has received too many requests and has asked us to try again "
            "later",
        },
        first=2,
        last=3,
    ),
    Fault(
        name="the cloud is unavailable (5xx)",
        says=_UNAVAILABLE,
        on=(*_CLUSTERS, "kubernetes:apps/v1:DaemonSet"),
    ),
    Fault(
        name="the cluster is created, the response lost",
        says={
            "gcp": "Error waiting for creating GKE cluster: timeout while waiting for state to "
            "become 'DONE' (last state: 'RUNNING', timeout: 40m0s)",
            "aws": "waiting for EKS Cluster (k8s-ml) create: timeout while waiting for state to "
            "become 'ACTIVE' (last state: 'CREATING', timeout: 30m0s)",
        },
        on=_CLUSTERS,
        moment="done",
    ),
    Fault(
        name="a node pool is created, the response lost",
        says={
            "gcp": "error creating NodePool: timeout while waiting for state to become 'DONE' "
            "(last state: 'RUNNING', timeout: 30m0s)",
            "aws": "waiting for EKS Node Group create: timeout while waiting for state to become "
            "'ACTIVE' (last state: 'CREATING', timeout: 1h0m0s)",
        },
        on=_POOLS,
        moment="done",
    ),
    Fault(
        name="the network is created, the response lost",
        says={
            "gcp": "Error waiting to create Network: timeout while waiting for state to become "
            "'DONE' (last state: 'RUNNING', timeout: 20m0s)",
            "aws": "creating EC2 VPC: operation error EC2: CreateVpc, request send failed, EOF",
        },
        on=("gcp:compute/network:Network", "aws:ec2/vpc:Vpc"),
        moment="done",
    ),
    Fault(
        name="an object is created, the response lost",
        says={"kubernetes": "Timeout: request did not complete within requested timeout"},
        on=("kubernetes:apps/v1:DaemonSet",),
        moment="done",
    ),
    Fault(
        name="no capacity for a node pool",
        says={
            "gcp": "error creating NodePool: ZONE_RESOURCE_POOL_EXHAUSTED: The zone does not have "
            "enough resources available to fulfill the request",
            "aws": "waiting for EKS Node Group create: unexpected state 'CREATE_FAILED', wanted "
            "target 'ACTIVE'. last error: AsgInstanceLaunchFailures: Could not launch On-Demand "
            "Instances. InsufficientInstanceCapacity",
        },
        on=_POOLS,
    ),
    Fault(
        name="a quota is used up midway",
        says={
            "gcp": "googleapi: Error 403: Quota 'ROUTERS' exceeded. Limit: 10.0 globally., "
            "quotaExceeded",
            "aws": "operation error EC2: AllocateAddress, https response error StatusCode: 400, "
            "api error AddressLimitExceeded: The maximum number of addresses has been reached.",
            "kubernetes": "pods is forbidden: exceeded quota: gpus, requested: "
            "requests.nvidia.com/gpu=2, used: 2, limited: 2",
        },
        on=("gcp:compute/router:Router", "aws:ec2/eip:Eip", "kubernetes:core/v1:Pod"),
        last=_EVER,
    ),
    Fault(name="credentials expire midway", says=_EXPIRED, first=5, last=_EVER),
    Fault(name="credentials expire midway", says=_EXPIRED, first=4, last=_EVER, command="destroy"),
    Fault(name="the cloud is unavailable (5xx)", says=_UNAVAILABLE, command="destroy"),
    Fault(
        name="the response to a deletion is lost",
        says={
            "gcp": "Error waiting for deletion: timeout while waiting for state to become 'DONE'",
            "aws": "request send failed, EOF",
            "kubernetes": "Timeout: request did not complete within requested timeout",
        },
        first=2,
        last=2,
        moment="done",
        command="destroy",
    ),
)


def hits_any(fault: Fault, urns: Iterable[str]) -> bool:
    """Whether a stack with these resources has enough operations for the fault to occur."""
    hits = _hits(fault)
    return any(hits(number, "create", urn) for number, urn in enumerate(urns))


def inject(runner: FaultRunner, fault: Fault) -> FaultResult | None:
    """Runs the command with the fault and restores the stack: deployed, or empty after a `destroy`,
    which starts with a deployed stack. None if the fault did not occur."""
    engine = runner.sandbox.engine
    run = engine.up if fault.command == "up" else engine.destroy

    def says(urn: str) -> str:
        return fault.says[Urn.parse(urn).package]

    runner.injector.arm(_hits(fault), fault.moment, lambda: None, error=says)
    outcome = run()
    runner.injector.settle()
    runner.injector.disarm()
    injected = runner.injector.hit
    tries = 0
    lost: tuple[str, ...] = ()
    try:
        if injected:
            if outcome.ok:
                raise NotRecovered("the command took no notice")
            tries = _again(
                runner, run, adopt_orphans=fault.command == "up" and fault.moment == "done"
            )
        if fault.command == "destroy":
            runner.assert_empty()
        elif injected:
            runner.assert_converged()
    except NotRecovered as failure:
        lost = failure.lines
    if not injected and not lost:
        return None
    return FaultResult(
        environment=runner.stack,
        fault=f"{fault.name}, during {fault.command}",
        at=", ".join(Urn.parse(urn).label for urn in injected[:1]),
        tries=tries,
        recovered=not lost,
        lost=lost,
        seen=outcome.errors[0] if outcome.errors else "",
    )


def _again(runner: FaultRunner, command: Callable[[], Outcome], *, adopt_orphans: bool) -> int:
    """Runs the command again, after a recovery if a response was lost; returns the attempts."""
    for tries in range(1, TRIES + 1):
        if adopt_orphans or tries > 1:
            runner.recover(adopt_orphans=True)
        outcome = command()
        if outcome.ok:
            return tries
    raise NotRecovered(*outcome.errors)


def _hits(fault: Fault) -> Callable[[int, str, str], bool]:
    count = 0

    def hits(number: int, kind: str, urn: str) -> bool:
        nonlocal count
        asked = Urn.parse(urn)
        if asked.package not in fault.says or (fault.on and asked.type not in fault.on):
            return False
        count += 1
        return fault.first <= count <= fault.last

    return hits
