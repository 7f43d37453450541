"""One AWS account, simulated by moto in this process and served on loopback to whoever wants to
look.

moto drops or lacks some of what EKS has; that is kept beside it, in `clusters` and `groups`.
"""

import logging
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import botocore.session
from botocore.config import Config as ClientConfig
from botocore.exceptions import ClientError, ParamValidationError

from plugins.cloud.handler import CloudError, NotFoundError
from simulators.aws.existing_network import lay_out
from simulators.inventory import Network
from tools.peers import close_to_others

NUMBER = "123456789012"
"""The account id that moto gives whoever does not assume a role."""
_NOT_FOUND = ("NotFound", "NoSuchEntity", "NotFoundException", "ResourceNotFoundException")


@dataclass(slots=True, kw_only=True)
class ClusterParts:
    """What a cluster has and moto does not keep. Inner maps are as the EKS API shows them."""

    inputs: dict[str, Any]
    """The cluster's properties as last declared."""
    security_group: str
    interfaces: list[str] = field(default_factory=list)
    """The control plane's network interfaces in the cluster's subnets."""
    entries: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Principal ARN -> access entry, its policies under `policies`."""
    addons: dict[str, dict[str, Any]] = field(default_factory=dict)
    associations: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    """(namespace, service account) -> pod identity association."""
    granted: dict[str, float] = field(default_factory=dict)
    """Principal ARN -> when it first had an access policy, on the monotonic clock."""
    grew: float = 0.0
    """When its newest node group was made, on the monotonic clock."""
    identified: dict[tuple[str, str], float] = field(default_factory=dict)
    """(namespace, service account) -> when it first had an association, in seconds since 1970."""


@dataclass(slots=True, kw_only=True)
class GroupParts:
    """What a node group has and moto does not keep."""

    cluster: str
    inputs: dict[str, Any]
    """The node group's properties as last declared, with what EKS fills in."""
    scaling_group: str
    kept: int
    """Nodes that EKS itself started for a declared desired size; the autoscaler's are not in it."""
    template: str
    """The launch template that EKS made for the group."""
    interfaces: list[str] = field(default_factory=list)
    """One network interface for each node that runs."""
    revision: int = 0
    """How often EKS began to recycle the nodes."""


class Account:
    """Hold `lock` for everything but `endpoint`. Only one at a time: moto's state is global."""

    def __init__(self, existing: Network | None = None) -> None:
        """`existing`: a VPC that is there before anything is made."""
        _forget_ambient_settings()
        # Imported here: it costs most of a second, and reads the environment.
        from moto.moto_server.threaded_moto_server import ThreadedMotoServer

        logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
        self.lock = threading.RLock()
        self.region = ""
        """Set by the first resource; a rehearsal simulates one region."""
        self._existing = existing
        self.before: set[str] = set()
        """What the account held before the stack came, as `list_resources` has it."""
        self.clusters: dict[str, ClusterParts] = {}
        self.groups: dict[str, GroupParts] = {}
        self._clients: dict[str, Any] = {}
        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._server.start()
        listening = self._server._server
        assert listening is not None  # it has started
        close_to_others(listening)
        host, port = self._server.get_host_and_port()
        self.endpoint = f"http://{host}:{port}"
        """For `endpoint_url` of any AWS client, with any credentials."""
        self._reset()

    def _reset(self) -> None:
        from moto.moto_api._internal.models import moto_api_backend

        moto_api_backend.reset()

    def stop(self) -> None:
        """Ends the APIs; what was in the account is gone."""
        self._server.stop()

    def open(self, config: Mapping[str, Any]) -> None:
        """Takes the region from the provider's configuration; raises CloudError for a second."""
        region = str(config.get("region") or "")
        if not region:
            raise CloudError("aws:region is not set: set it, e.g. to us-east-1")
        if self.region and region != self.region:
            raise CloudError(
                f"a rehearsal simulates one region: {self.region} is in use, got {region}"
            )
        fresh, self.region = not self.region, region
        if fresh and self._existing is not None:
            lay_out(self, self._existing)
            from simulators.aws.list_resources import list_resources

            self.before = set(list_resources(self))

    def client(self, service: str) -> Any:
        """A botocore client; only the region and the endpoint of this account, whatever the
        environment says."""
        if service not in self._clients:
            self._clients[service] = _session().create_client(
                service,
                region_name=self.region,
                endpoint_url=self.endpoint,
                config=ClientConfig(proxies={}, retries={"total_max_attempts": 1}),
            )
        return self._clients[service]

    def backend(self, service: str) -> Any:
        """moto's own state of a service, for what its API does not let anybody change."""
        from moto.backends import get_backend

        return get_backend(service)[NUMBER][self.region]  # type: ignore[call-overload]

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


@contextmanager
def answering() -> Iterator[None]:
    """Turns what an AWS client raises into the simulator's own errors, in AWS's words."""
    try:
        yield
    except ClientError as error:
        code, words = error.response["Error"]["Code"], error.response["Error"]["Message"]
        kind = NotFoundError if code.endswith(_NOT_FOUND) else CloudError
        raise kind(f"{error.operation_name}: {code}: {words}") from error
    except ParamValidationError as error:
        _, *found = (line.strip() for line in str(error).splitlines())
        raise CloudError(f"Parameter validation failed: {'; '.join(found)}") from error
