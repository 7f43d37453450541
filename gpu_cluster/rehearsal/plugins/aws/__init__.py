"""The engine's `aws` provider, offline: translates between a resource's inputs and the API at the
endpoint in the environment."""

import pkgutil
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from gpu_cluster.clouds.rows.aws import rows
from gpu_cluster.rehearsal.plugins.aws.api import Api, answering
from gpu_cluster.rehearsal.plugins.aws.eks import Cluster
from gpu_cluster.rehearsal.plugins.aws.provider_config import check_config
from gpu_cluster.rehearsal.plugins.aws.rowed import Rowed
from gpu_cluster.rehearsal.plugins.cloud.handler import Config, Handler
from gpu_cluster.rehearsal.plugins.cloud.server import ProviderSettings
from gpu_cluster.rehearsal.plugins.faults import Faults

__all__ = ["settings_for"]


def settings_for(environment: Mapping[str, str], faults: Faults) -> ProviderSettings:
    """The provider for the API at `AWS_ENDPOINT_URL`."""
    api = Api(environment)

    def caller(config: Config, arguments: Mapping[str, Any]) -> dict[str, Any]:
        api.open(config)
        row = api.client("sts").get_caller_identity()
        number = row["Account"]
        return {"accountId": number, "arn": row["Arn"], "userId": row["UserId"], "id": number}

    def cluster(config: Config, arguments: Mapping[str, Any]) -> dict[str, Any]:
        with answering():
            api.open(config)
            now = Cluster(api).read(str(arguments["name"]), {})
        lists = ("certificateAuthority", "accessConfig", "kubernetesNetworkConfig")
        plural = {name: [now[name]] for name in lists}
        return {
            **now,
            "id": arguments["name"],
            "certificateAuthorities": plural["certificateAuthority"],
            "accessConfigs": plural["accessConfig"],
            "kubernetesNetworkConfigs": plural["kubernetesNetworkConfig"],
            "computeConfigs": [now["computeConfig"]] if now.get("computeConfig") else [],
        }

    return ProviderSettings(
        package="aws",
        handlers=_handlers(api),
        functions={
            "aws:index/getCallerIdentity:getCallerIdentity": caller,
            "aws:index/getPartition:getPartition": _partition,
            "aws:eks/getCluster:getCluster": cluster,
        },
        faults=faults,
        check_config=check_config,
    )


def _handlers(api: Api) -> dict[str, Handler]:
    """The handlers of the rows, overridden by the classes in this folder."""
    for module in pkgutil.iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
    handlers: dict[str, Handler] = {token: Rowed(api, token) for token in rows()}
    kinds = [Rowed]
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if "token" in vars(kind):
            handlers[kind.token] = kind(api)
    return handlers


def _partition(config: Config, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "partition": "aws",
        "dnsSuffix": "amazonaws.com",
        "reverseDnsPrefix": "com.amazonaws",
        "id": "aws",
    }
