"""How recovery asks the stand-in AWS: moto's API, and what moto's lacks."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from rehearsal.aws import AwsCloud
from rehearsal.cloud import Cloud


def client(cloud: Cloud) -> Callable[[str], Any]:
    """Service -> its client."""
    assert isinstance(cloud, AwsCloud)
    account = cloud.account

    def associations(params: dict[str, Any], **_: Any) -> tuple[Any, dict[str, Any]]:
        name = params["url_path"].split("/")[2]
        wanted = (params["query_string"]["namespace"], params["query_string"]["serviceAccount"])
        with account.lock:
            parts = account.clusters.get(name)
            found = dict(parts.associations) if parts else {}
        rows = [
            {"associationId": row["associationId"]} for key, row in found.items() if key == wanted
        ]
        return SimpleNamespace(status_code=200), {"associations": rows}

    def named(service: str) -> Any:
        made = account.client(service)
        if service == "eks":
            event = "before-call.eks.ListPodIdentityAssociations"
            made.meta.events.register(event, associations, unique_id="associations")
        return made

    return named
