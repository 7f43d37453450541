"""One AWS account, simulated by moto in this process and served on loopback.

All that the account holds is in moto's backends; what moto lacks is added by `api`.
"""

import os
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import botocore.session
from botocore.config import Config as ClientConfig

from rehearsal.simulators.aws import api
from rehearsal.simulators.aws.existing_network import lay_out
from rehearsal.simulators.cloud import ApiFaults, ControlPlane, NoFaults
from rehearsal.simulators.inventory import Network
from rehearsal.simulators.reservations import Reservation
from rehearsal.simulators.serving import RequestHandler, Served

if TYPE_CHECKING:
    from rehearsal.simulators.aws.eks import Cluster, Group

NUMBER = "123456789012"
"""The account id that moto gives whoever does not assume a role."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket of S3 that somebody created before."""

    region: str = ""
    """Empty for the region of the rehearsal."""
    key: str = ""
    """The ARN of the KMS key that encrypts its objects by default; empty for S3's own."""


class Asking(threading.local):
    """Whether this thread is in the midst of a request: what it asks then is asked by AWS itself,
    to which no rule applies."""

    depth = 0
    response: Any = None
    """moto's object for the request."""

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1


class Account:
    """Hold `lock` to see it at rest. Only one at a time: moto's state is global."""

    def __init__(
        self,
        existing: Network | None = None,
        *,
        reservations: Sequence[Reservation] = (),
        buckets: Mapping[str, Bucket] | None = None,
        control_plane: ControlPlane | None = None,
        faults: ApiFaults | None = None,
        changed: Callable[[], None] = lambda: None,
        people: Callable[[], Collection[str]] = lambda: (),
        quota_suffices: bool = False,
    ) -> None:
        """`existing`, `reservations`, `buckets`: what is there before anything is made. `changed`
        is called, unlocked, after every request that changed something. `people`: ARNs of roles and
        users that are there although nobody made them here. With `quota_suffices`, every node group
        can grow to its maximum, as far as `faults` sets no quota."""
        _forget_ambient_settings()
        # Imported here: it costs most of a second, and reads the environment.
        from moto.moto_server.werkzeug_app import (
            DomainDispatcherApplication,
            MotoRequestHandler,
            create_backend_app,
        )

        from rehearsal.simulators.aws import operations, scaling

        operations.load()
        self.lock = threading.RLock()
        self.asking = Asking()
        self.faults = faults or NoFaults()
        self.control_plane = control_plane
        self.changed = changed
        self.people = people
        self.quota_suffices = quota_suffices
        self.region = ""
        """Set by the first request; a rehearsal simulates one region."""
        self._existing = existing
        self.reservations = {one.name: one for one in reservations}
        """By ID."""
        self.buckets = dict(buckets or {})
        """By name."""
        self.before: set[str] = set()
        """What the account held before the stack came, as `list_resources` has it."""
        self._clients: dict[str, Any] = {}
        self._restore = [api.install(self), scaling.install(self)]
        self._app = DomainDispatcherApplication(create_backend_app)
        handler = type("Handler", (RequestHandler, MotoRequestHandler), {})
        self._server = Served(self._app, handler)
        self.port, self.endpoint = self._server.port, self._server.endpoint
        """For `AWS_ENDPOINT_URL` of any AWS client, with any credentials."""
        self._reset()

    def _reset(self) -> None:
        from moto.moto_api._internal.models import moto_api_backend
        from moto.s3.models import s3_backends

        moto_api_backend.reset()
        # Names of buckets are those of everybody, and one of an account that ended may be left.
        s3_backends.bucket_accounts.clear()

    def stop(self) -> None:
        """Ends the APIs; what was in the account is gone."""
        self._server.stop()
        while self._restore:
            self._restore.pop()()

    def open(self, region: str) -> None:
        """Takes the region of the first request; raises Refusal for a second one."""
        if self.region and region != self.region:
            raise api.Refusal(
                "OptInRequired",
                f"a rehearsal simulates one region: {self.region} is in use, got {region}",
            )
        fresh, self.region = not self.region, region
        if fresh:
            with self.asking:
                self._create_buckets()
        if fresh and self._existing is not None:
            with self.asking:
                lay_out(self, self._existing)
                from rehearsal.simulators.aws.list_resources import list_resources

                self.before = set(list_resources(self))

    def _create_buckets(self) -> None:
        for name, bucket in self.buckets.items():
            region = bucket.region or self.region
            place = {} if region == "us-east-1" else {"LocationConstraint": region}
            self.client("s3").create_bucket(
                Bucket=name, **({"CreateBucketConfiguration": place} if place else {})
            )

    def client(self, service: str) -> Any:
        """A botocore client that reaches this account without a socket, on the caller's thread;
        whatever the environment says. Within a request it is AWS itself that asks."""
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
        chunks, status, answered = run_wsgi_app(self._app, environ, buffered=True)
        raw = MockRawResponse(b"".join(chunks))
        return AWSResponse(request.url, int(status.split()[0]), HeadersDict(answered), raw)

    def backend(self, service: str) -> Any:
        """moto's own state of a service."""
        from moto.backends import get_backend

        where = "aws" if service in api.GLOBAL else self.region
        return get_backend(service)[NUMBER][where]  # type: ignore[call-overload]

    @property
    def clusters(self) -> Mapping[str, "Cluster"]:
        """The EKS clusters by name, in moto's backend."""
        found: Mapping[str, Cluster] = self.backend("eks").clusters if self.region else {}
        return found

    @property
    def groups(self) -> Mapping[str, "Group"]:
        """The node groups whose nodes can join, by name."""
        return {
            name: group
            for cluster in self.clusters.values()
            for name, group in cluster.groups.items()
            if group.row["status"] != "CREATE_FAILED"
        }

    def arn(self, service: str, resource: str) -> str:
        """The ARN of a resource of this account in its region."""
        return f"arn:aws:{service}:{self.region}:{NUMBER}:{resource}"


@cache
def _session() -> Any:
    """One for the process: it keeps the models of the APIs, which take a second to read."""
    session = botocore.session.Session()
    session.set_credentials("rehearsal", "rehearsal")
    return session


def _forget_ambient_settings() -> None:
    """Nothing of the person's own AWS settings may reach a rehearsal."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ["AWS_CONFIG_FILE"] = os.environ["AWS_SHARED_CREDENTIALS_FILE"] = os.devnull
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    os.environ["MOTO_IAM_LOAD_MANAGED_POLICIES"] = "true"
