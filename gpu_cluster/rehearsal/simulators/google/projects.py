"""Projects: their IAM policies (Resource Manager) and enabled APIs (Service Usage)."""

from typing import Any

from gpu_cluster.rehearsal.simulators.google import policies
from gpu_cluster.rehearsal.simulators.google.api.call import Call, get_operation
from gpu_cluster.rehearsal.simulators.google.errors import bad_request
from gpu_cluster.rehearsal.simulators.google.resource import PROJECT_NUMBER, CloudResource

SERVICE = "serviceusage.services"


def _get(call: Call) -> dict[str, Any]:
    project = call.path["projectId"]
    return {
        "projectNumber": PROJECT_NUMBER,
        "projectId": project,
        "name": project,
        "lifecycleState": "ACTIVE",
        "createTime": "2026-01-01T00:00:00Z",
    }


def _state(call: Call, identity: str) -> dict[str, Any]:
    name, enabled = identity.rpartition("/")[2], identity in call.cloud.resources
    return {
        "name": f"projects/{PROJECT_NUMBER}/services/{name}",
        "parent": f"projects/{PROJECT_NUMBER}",
        "state": "ENABLED" if enabled else "DISABLED",
        "config": {"name": name},
    }


def _service(call: Call) -> dict[str, Any]:
    return _state(call, call.name)


def _services(call: Call) -> dict[str, Any]:
    wanted = call.query.get("filter", "")
    if wanted not in ("", "state:ENABLED"):
        raise bad_request(f"a rehearsal does not simulate the filter '{wanted}'")
    names = sorted(service.identity for service in call.cloud.of(SERVICE))
    inside = [name for name in names if name.startswith(f"{call.name}/")]
    return call.page("services", [_state(call, name) for name in inside], 50)


def _enable(call: Call) -> dict[str, Any]:
    _add(call, call.name)
    return _done(call, {"service": _state(call, call.name)}, "EnableServiceResponse")


def _enable_all(call: Call) -> dict[str, Any]:
    names = [f"{call.name}/{name}" for name in call.body.get("serviceIds", ())]
    for name in names:
        _add(call, name)
    services = [_state(call, name) for name in names]
    return _done(call, {"services": services}, "BatchEnableServicesResponse")


def _add(call: Call, name: str) -> None:
    if "." not in name.rpartition("/")[2]:
        raise bad_request(f"Not found or permission denied for service(s): {name}")
    call.cloud.resources[name] = CloudResource(
        token=SERVICE, display_name="enabled API", identity=name, state={}
    )


def _disable(call: Call) -> dict[str, Any]:
    call.cloud.resources.pop(call.name, None)
    return _done(call, {"service": _state(call, call.name)}, "DisableServiceResponse")


def _done(call: Call, result: dict[str, Any], kind: str) -> dict[str, Any]:
    found = {"@type": f"type.googleapis.com/google.api.serviceusage.v1.{kind}", **result}
    operation = call.cloud.operations.begin("longrunning", "", kind, call.name, result=found)
    return operation.body(call.base)


ENDPOINTS = {"RESOURCE_MANAGER": "cloudresourcemanager/v1/", "SERVICE_USAGE": "serviceusage/v1/"}
METHODS = {
    "cloudresourcemanager.projects.get": _get,
    "cloudresourcemanager.projects.getIamPolicy": policies.get,
    "cloudresourcemanager.projects.setIamPolicy": policies.set_,
    "serviceusage.services.get": _service,
    "serviceusage.services.list": _services,
    "serviceusage.services.enable": _enable,
    "serviceusage.services.batchEnable": _enable_all,
    "serviceusage.services.disable": _disable,
    "serviceusage.operations.get": get_operation,
}
