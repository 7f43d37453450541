"""Reads services from a stack's config, and refuses those that could never run."""

from collections.abc import Mapping

from ..decode import decode_map
from ..gpu.service_args import ServiceArgs
from .batch_args import QueueRequest
from .load import Available, check_pods, pool_at


def read_services(path: str, value: object, available: Available) -> Mapping[str, ServiceArgs]:
    """Reads the config's `services`, whose key is `path`; raises as the functions of `load` do."""
    services = decode_map(path, ServiceArgs, value)
    for name, args in services.items():
        request = QueueRequest(
            queue=None,
            namespace=args.namespace,
            pool=pool_at(f"{path}.{name}.pool", args.pool, available.pools),
            pods=args.pods,
            gpus=args.gpus,
            long_running=True,
        )
        check_pods(f"{path}.{name}", args, request, available)
    return services
