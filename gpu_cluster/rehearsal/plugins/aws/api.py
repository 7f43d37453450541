"""Clients of the AWS API at the endpoint in the environment."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import botocore.session
from botocore.config import Config as ClientConfig
from botocore.exceptions import ClientError, ParamValidationError

from gpu_cluster.rehearsal.plugins.cloud.handler import CloudError, NotFoundError

ENDPOINT = "AWS_ENDPOINT_URL"
SECONDS = "x-simulated-seconds"
"""Header in which a simulated cloud returns the real duration of an operation."""
GLOBAL = ("iam", "sts")
"""Services without regions."""
_PATIENCE = 600
"""Seconds that an answer may take: the simulator runs on this machine, which may be busy with many
rehearsals, and a request that is given up is still carried out. botocore's default is 60."""
_NOT_FOUND = ("NotFound", "NoSuchEntity", "NotFoundException", "ResourceNotFoundException")


class Api:
    """Clients for one region."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """`environment` must have `ENDPOINT`; nothing else of it is read."""
        self.endpoint = environment[ENDPOINT]
        self.region = ""
        """The region in the provider's configuration."""
        self._clients: dict[tuple[str, str], Any] = {}
        self._number = ""
        self._lock = threading.Lock()

    def open(self, config: Mapping[str, Any]) -> None:
        """Reads the region from the provider's configuration."""
        self.region = str(config.get("region") or "")
        if not self.region:
            raise CloudError("aws:region is not set: set it, e.g. to us-east-1")

    def client(self, service: str) -> Any:
        """A botocore client for the service."""
        key = service, self.region
        with self._lock:  # the engine requests many resources at once
            if key not in self._clients:
                self._clients[key] = _session().create_client(
                    service,
                    region_name=self.region,
                    endpoint_url=self.endpoint,
                    config=ClientConfig(
                        proxies={},
                        retries={"total_max_attempts": 1},
                        max_pool_connections=50,
                        read_timeout=_PATIENCE,
                    ),
                )
            return self._clients[key]

    @property
    def number(self) -> str:
        """The account's number."""
        if not self._number:
            self._number = str(self.client("sts").get_caller_identity()["Account"])
        return self._number

    def arn(self, service: str, resource: str, owner: str) -> str:
        """The ARN of a resource of the account `owner` in the region."""
        return f"arn:aws:{service}:{self.region}:{owner}:{resource}"


@cache
def service_model(service: str) -> Any:
    """botocore's model of a service."""
    return _session().get_service_model(service)


@cache
def _session() -> Any:
    """One session per process: it caches the API models, which take a second to read."""
    session = botocore.session.Session()
    session.set_credentials("rehearsal", "rehearsal")
    return session


@contextmanager
def answering() -> Iterator[None]:
    """Converts an AWS client's exceptions into the plugin's errors, with AWS's messages."""
    try:
        yield
    except ClientError as error:
        code, words = error.response["Error"]["Code"], error.response["Error"]["Message"]
        kind = NotFoundError if code.endswith(_NOT_FOUND) else CloudError
        raise kind(f"{error.operation_name}: {code}: {words}") from error
    except ParamValidationError as error:
        _, *found = (line.strip() for line in str(error).splitlines())
        raise CloudError(f"Parameter validation failed: {'; '.join(found)}") from error
