"""The contents of one simulated AWS account: moto's backends, and the rehearsal's own settings."""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import botocore.session
from botocore.config import Config as ClientConfig

from gpu_cluster.rehearsal.simulators.aws.refusal import Refusal
from gpu_cluster.rehearsal.simulators.aws.rows import Cluster, Group
from gpu_cluster.rehearsal.simulators.blocks import Sizes
from gpu_cluster.rehearsal.simulators.cloud import ApiFaults, ControlPlane, NoFaults, Recycled
from gpu_cluster.rehearsal.simulators.inventory import EksCluster, Network
from gpu_cluster.rehearsal.simulators.reservations import Reservation
from gpu_cluster.rehearsal.simulators.stock import Stock, Stocks

GLOBAL = ("iam", "sts")
"""Services without regions."""
NUMBER = "123456789012"
"""The account id that moto gives callers without an assumed role."""
CALLER = f"arn:aws:iam::{NUMBER}:user/rehearsal"
"""Who calls with keys that neither IAM nor STS has given."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """An S3 bucket that existed before the stack."""

    region: str = ""
    """Empty for the rehearsal's region."""
    key: str = ""
    """The ARN of the KMS key that encrypts its objects by default; empty for S3's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod that calls AWS, identified by its service account."""

    cluster: str
    namespace: str
    service_account: str

    @property
    def automatic(self) -> bool:
        """Whether this stands for EKS Auto Mode itself, with the cluster's role."""
        return not self.namespace

    @property
    def words(self) -> str:
        """The pod's name in a report."""
        return "EKS Auto Mode" if self.automatic else f"{self.namespace}/{self.service_account}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Denied:
    """A call that a role's policies did not allow."""

    pod: Pod
    role: str
    action: str
    resource: str
    context: tuple[tuple[str, str | tuple[str, ...]], ...]


class Asking(threading.local):
    """Whether this thread is in a request: its calls are then AWS's own, without rules."""

    depth = 0
    response: Any = None
    """moto's object for the request."""

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Existing:
    """The content of an account before its first request."""

    network: Network | None = None
    cluster: EksCluster | None = None
    reservations: Sequence[Reservation] = ()
    buckets: Mapping[str, Bucket] = field(default_factory=dict)
    stock: Sequence[Stock] = ()
    """Instances in limited number."""
    blocks: Sizes = field(default_factory=dict)
    """Where in the network instances are."""


class Account:
    """Hold `lock` for a consistent view. `served_account.serve` gives it an API."""

    def __init__(
        self,
        existing: Existing | None = None,
        *,
        control_plane: ControlPlane | None = None,
        faults: ApiFaults | None = None,
        changed: Callable[[], None] = lambda: None,
        people: Callable[[], Collection[str]] = lambda: (),
        quota_suffices: bool = False,
        rehearsed: bool = True,
    ) -> None:
        """`changed` is called, without the lock, after every request that changed something.
        `people`: ARNs of roles and users that exist although they were not created here. With
        `quota_suffices`, every node group can grow to its maximum unless `faults` sets a quota.
        `rehearsed`: whether a stack's order of operations is tried here: a call that AWS accepts
        but that breaks a node group is refused, and node groups are judged when they are created;
        otherwise they have a while to become able to join."""
        self.recycled: Recycled = lambda group, revision: "done"
        self.lock = threading.RLock()
        self.asking = Asking()
        self.faults = faults or NoFaults()
        self.control_plane = control_plane
        self.changed = changed
        self.people = people
        self.quota_suffices = quota_suffices
        self.rehearsed = rehearsed
        self.region = ""
        """Set by the first request; a rehearsal simulates one region."""
        self.existing = existing = existing or Existing()
        self.reservations = {reservation.name: reservation for reservation in existing.reservations}
        """Reservations by ID."""
        self.buckets = dict(existing.buckets)
        """Buckets by name."""
        self.images: dict[str, Any] = {}
        self.image_architectures: dict[str, str] = {}
        """ID of an image of the account's own -> its architecture, which no request tells."""
        """EKS's images whose IDs were requested, by ID."""
        self.attempts: dict[str, list[tuple[str, str]]] = {}
        """Karpenter's NodePool -> its fleet requests: purchase option, and why they got no
        instance; only changes from the previous request."""
        self.scored: dict[Any, datetime] = {}
        """Configurations of which Spot placement scores were requested -> when, at last."""
        self.blocks = existing.blocks
        self.stock = Stocks(existing.stock)
        self.pods: dict[str, Pod] = {}
        """Access key -> the pod that got it through pod identity."""
        self.authorize: Callable[[str, str, Mapping[str, Any]], None] = lambda *_: None
        """Raises Refusal if the calling pod may not do this: service, operation, parameters."""
        self.denied: list[Denied] = []
        """Calls that roles of pods made and may not make, each once."""
        self.deleted: set[str] = set()
        """The names in deletions, including EC2's IDs."""
        self.before: set[str] = set()
        """The account's content before the stack, as listed by `list_resources`."""
        self.states_before: Mapping[str, str] = {}
        """The state of that content, as returned by `states`."""
        self._clients: dict[str, Any] = {}
        self.app: Any = None
        """moto's server, as a WSGI application."""
        self.port, self.endpoint = 0, ""
        """The value of `AWS_ENDPOINT_URL` for any AWS client; any credentials work."""
        self.opened: Callable[[], None] = lambda: None
        """Called when the first request has set the region."""

    def open(self, region: str) -> None:
        """Sets the region of the first request; raises Refusal for a second one."""
        if self.region and region != self.region:
            raise Refusal(
                "OptInRequired",
                f"a rehearsal simulates one region: {self.region} is in use, got {region}",
            )
        fresh, self.region = not self.region, region
        if fresh:
            with self.asking:
                self.opened()

    def client(self, service: str) -> Any:
        """A botocore client that reaches this account without a socket, on the caller's thread,
        regardless of the environment. Within a request, its calls are AWS's own."""
        with self.lock:
            if service not in self._clients:
                made = self._clients[service] = _session().create_client(
                    service,
                    region_name=self.region or "us-east-1",
                    endpoint_url=self.endpoint,
                    config=ClientConfig(proxies={}, retries={"total_max_attempts": 1}),
                )
                made.meta.events.register_first("before-send", self._in_process)
            return self._clients[service]

    def _in_process(self, request: Any, **_: Any) -> Any:
        from botocore.awsrequest import AWSResponse, HeadersDict
        from moto.core.botocore_stubber import MockRawResponse
        from werkzeug.test import EnvironBuilder, run_wsgi_app

        url = urlsplit(request.url)
        headers = {
            name: value.decode() if isinstance(value, bytes) else value
            for name, value in request.headers.items()
        }
        body = request.body.encode() if isinstance(request.body, str) else request.body
        environ = EnvironBuilder(
            path=f"{url.path}?{url.query}" if url.query else url.path,
            base_url=self.endpoint,
            method=request.method,
            headers=headers,
            data=body or b"",
        ).get_environ()
        environ["RAW_URI"] = environ["REQUEST_URI"] = f"{url.path}?{url.query}"
        chunks, status, answered = run_wsgi_app(self.app, environ, buffered=True)
        raw = MockRawResponse(b"".join(chunks))
        return AWSResponse(request.url, int(status.split()[0]), HeadersDict(answered), raw)

    def backend(self, service: str) -> Any:
        """moto's backend of a service."""
        from moto.backends import get_backend

        where = "aws" if service in GLOBAL else self.region
        return get_backend(service)[NUMBER][where]  # type: ignore[call-overload]

    @property
    def clusters(self) -> Mapping[str, Cluster]:
        """The EKS clusters by name, in moto's backend."""
        found: Mapping[str, Cluster] = self.backend("eks").clusters if self.region else {}
        return found

    @property
    def groups(self) -> Mapping[str, Group]:
        """The node groups whose nodes can join, by name."""
        return {
            name: group
            for cluster in self.clusters.values()
            for name, group in cluster.groups.items()
            if group.row["status"] not in ("CREATING", "CREATE_FAILED")
        }

    def arn(self, service: str, resource: str) -> str:
        """The ARN of a resource of this account in its region."""
        return f"arn:aws:{service}:{self.region}:{NUMBER}:{resource}"


@cache
def _session() -> Any:
    """One session per process: it caches the API models, which take a second to read."""
    session = botocore.session.Session()
    session.set_credentials("rehearsal", "rehearsal")
    return session
