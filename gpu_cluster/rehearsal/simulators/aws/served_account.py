"""Serves a simulated AWS account on loopback: moto's server with its extensions."""

import os
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache, partial
from typing import Any

from gpu_cluster.rehearsal.simulators.aws import (
    api,
    existing_cluster,
    managed_policies,
    operations,
    pod_calls,
    queues,
    scaling,
)
from gpu_cluster.rehearsal.simulators.aws.account import Account
from gpu_cluster.rehearsal.simulators.aws.api import list_resources
from gpu_cluster.rehearsal.simulators.aws.existing_network import lay_out
from gpu_cluster.rehearsal.simulators.aws.offers import with_price_list
from gpu_cluster.rehearsal.simulators.aws.states import states
from gpu_cluster.rehearsal.simulators.serving import RequestHandler, Served


def serve(account: Account) -> Callable[[], None]:
    """Serves the account until the returned function is called, which discards its content.

    Only one at a time: moto's state is global.
    """
    _forget_ambient_settings()
    managed_policies.keep()
    # Imported here because it takes most of a second, and reads the environment.
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler

    # Its models lack some of the cloud's error shapes; the responses are right without them.
    warnings.filterwarnings("ignore", r"Exception\(.*does not match an error shape", UserWarning)
    operations.load()
    ending = ExitStack()
    ending.callback(api.install(account))
    ending.callback(scaling.install(account))
    ending.callback(queues.install(account))
    account.app = with_price_list(account, DomainDispatcherApplication(_service_app))
    handler = type("Handler", (RequestHandler, MotoRequestHandler), {})
    server = Served(account.app, handler)
    ending.callback(server.stop)
    account.port, account.endpoint = server.port, server.endpoint
    account.opened = lambda: _fill(account)
    account.authorize = partial(pod_calls.check_caller, account)
    _reset()
    return ending.close


@cache
def _service_app(service: str) -> Any:
    """moto's application for a service: its routes, the same for each account."""
    from moto.moto_server.werkzeug_app import create_backend_app

    return create_backend_app(service)  # type: ignore[arg-type]


def _fill(account: Account) -> None:
    """Creates what exists before the stack."""
    for name, bucket in account.buckets.items():
        region = bucket.region or account.region
        place = {} if region == "us-east-1" else {"LocationConstraint": region}
        account.client("s3").create_bucket(
            Bucket=name, **({"CreateBucketConfiguration": place} if place else {})
        )
    if account.existing.network is not None:
        lay_out(account, account.existing.network)
        if account.existing.cluster is not None:
            existing_cluster.lay_out(account, account.existing.cluster)
        account.before, account.states_before = set(list_resources(account)), states(account)


def _reset() -> None:
    from moto.moto_api._internal.models import moto_api_backend
    from moto.s3.models import s3_backends

    moto_api_backend.reset()
    # Bucket names are global, and one of an ended account may be left.
    s3_backends.bucket_accounts.clear()


def _forget_ambient_settings() -> None:
    """Removes the user's own AWS settings, which must not reach a rehearsal."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ["AWS_CONFIG_FILE"] = os.environ["AWS_SHARED_CREDENTIALS_FILE"] = os.devnull
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    # `images` answers instead; loading 500 of them takes a tenth of a second for each account.
    os.environ["MOTO_EC2_LOAD_DEFAULT_AMIS"] = "false"
    os.environ["MOTO_IAM_LOAD_MANAGED_POLICIES"] = "true"
