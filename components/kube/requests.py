"""The resources that the scheduler reserves for a pod.

Calculated like in k8s.io/component-helpers resource/helpers.go (read 2026-11-21): the containers
together with the sidecars (init containers that always restart), or the largest init container
together with the sidecars before it, whichever is more; for CPU and memory, the requests of the pod
as a whole, if it has any, instead; plus the overhead of its runtime class.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from . import quantity

_OF_THE_POD: Final = ("cpu", "memory", "hugepages-")
"""Resources that a pod can request as a whole."""


def requests(spec: Mapping[str, Any]) -> dict[str, Decimal]:
    """Resource -> amount that a pod with this spec uses; without zeros.

    A limit is also the default request, as in the API server. Raises ValueError for bad quantities.
    """
    running: dict[str, Decimal] = {}
    for container in spec.get("containers") or []:
        _add(running, _asked(container))
    sidecars: dict[str, Decimal] = {}
    peak: dict[str, Decimal] = {}
    for container in spec.get("initContainers") or []:
        asked = _asked(container)
        if container.get("restartPolicy") == "Always":
            _add(running, asked)
            _add(sidecars, asked)
            asked = {}
        for name in {*asked, *sidecars}:
            now = asked.get(name, Decimal(0)) + sidecars.get(name, Decimal(0))
            peak[name] = max(peak.get(name, Decimal(0)), now)
    total = {
        name: max(running.get(name, Decimal(0)), peak.get(name, Decimal(0)))
        for name in {*running, *peak}
    }
    whole = _asked(spec)
    total |= {name: whole[name] for name in whole if name.startswith(_OF_THE_POD)}
    _add(total, {name: quantity.parse(amount) for name, amount in _map(spec, "overhead").items()})
    return {name: total[name] for name in sorted(total) if total[name]}


def _asked(holder: Mapping[str, Any]) -> dict[str, Decimal]:
    resources = _map(holder, "resources")
    quantities = {**_map(resources, "limits"), **_map(resources, "requests")}
    return {name: quantity.parse(amount) for name, amount in quantities.items()}


def _add(total: dict[str, Decimal], more: Mapping[str, Decimal]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, Decimal(0)) + amount


def _map(holder: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    mapping: Mapping[str, Any] = holder.get(key) or {}
    return mapping
