"""What the tests of every rule share: good resources, and a change that breaks the rule.

`resources.yaml` has the resources, and `rules.yaml` the cases of each rule.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path as File
from typing import Any

import yaml
from pulumi_policy import (
    PolicyCustomTimeouts,
    PolicyProviderResource,
    PolicyResource,
    PolicyResourceOptions,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE, unknown_checking_proxy

from gpu_cluster.policy.binding import DECLARED
from gpu_cluster.policy.pack import POLICIES, policies
from gpu_cluster.policy.reading import UNKNOWN, Resource
from tests.unit.components.gpu_daemons import EBS_CSI, EFA, SECRETS_STORE

DROP: Any = object()
"""Instead of a value: the key is not there at all."""

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Case:
    """Resources that keep a rule, and one change after which they break it."""

    rule: str
    good: tuple[Resource, ...]
    path: Path
    """In the last resource."""
    bad: Any
    message: str
    config: dict[str, Any] = field(default_factory=dict)

    @property
    def broken(self) -> tuple[Resource, ...]:
        return self.with_value(self.bad)

    def with_value(self, value: Any, path: Path | None = None) -> tuple[Resource, ...]:
        """The resources with another value at the path."""
        *others, last = self.good
        return (*others, changed(last, self.path if path is None else path, value))

    def __str__(self) -> str:
        return f"{self.rule}-{'.'.join(map(str, self.path)) or 'whole'}"


def _read(name: str) -> dict[str, Any]:
    return yaml.safe_load(File(__file__).with_name(name).read_text())  # type: ignore[no-any-return]


def described(row: Mapping[str, Any], known: Mapping[str, Resource]) -> Resource:
    """A resource as the tables have it, of the stack `dev` unless they name another."""
    made = known[row["of"]] if "of" in row else Resource(type="", name="", props=row["props"])
    for key, value in row.items():
        if key in ("type", "name", "provider", "protect"):
            made = replace(made, **{key: value})
        elif key == "ignoreChanges":
            made = replace(made, ignore_changes=value)
        elif key == "uses":
            urns = {path: [known[name].urn for name in names] for path, names in value.items()}
            made = replace(made, uses=urns)
    made = replace(made, props=_given(made.props))
    for *path, value in row.get("change", ()):
        made = changed(made, (*path,), _given(value))
    return in_stack(made, row.get("stack", "dev"))


def in_stack(resource: Resource, stack: str) -> Resource:
    """The same in another stack."""
    urn = f"urn:pulumi:{stack}::gpu-cluster::{resource.type}::{resource.name}"
    return replace(resource, urn=urn)


def _given(value: Any) -> Any:
    """A value of the tables as the rules meet it."""
    if isinstance(value, dict):
        if [*value] == ["json"]:
            return json.dumps(value["json"])
        return {key: _given(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_given(inner) for inner in value]
    return {"absent": DROP, "unknown": UNKNOWN}.get(value, value)


def changed(resource: Resource, path: Path, value: Any) -> Resource:
    """The resource with another value at the path; `protect` and such are named by `@`."""
    if str(path[0]).startswith("@"):
        return replace(resource, **{str(path[0])[1:]: value})
    props = _copy(resource.props)
    holder: Any = props
    for step in path[:-1]:
        holder = holder.setdefault(step, {}) if isinstance(step, str) else holder[step]
    if value is DROP:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return replace(resource, props=props)


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


DAEMONS = {"ebs-csi-node": EBS_CSI, "secrets-store-node": SECRETS_STORE, "efa-plugin": EFA}
"""On the nodes of GPU pools, and neither a driver's installer nor a device plugin of theirs."""


def _resources() -> dict[str, Resource]:
    known = dict[str, Resource]()
    for name, row in _read("resources.yaml").items():
        known[name] = described(row, known)
    for name, spec in DAEMONS.items():
        like, path = replace(known["exporter"], name=name), ("spec", "template", "spec")
        on_gpus = {"nodeSelector": {"role": "train"}, **spec}
        known[name] = in_stack(changed(like, path, on_gpus), "dev")
    return known


RESOURCES = _resources()
"""Name -> resource that keeps every rule."""


def cases() -> Iterator[Case]:
    """A case for each row, or for each value of a row with several."""
    for rule, rows in _read("rules.yaml").items():
        for row in rows:
            good = [
                RESOURCES[each] if isinstance(each, str) else described(each, RESOURCES)
                for each in row["good"]
            ]
            path = row["change"] if "each" in row else row["change"][:-1]
            for bad in row.get("each", row["change"][-1:]):
                message = row["says"].replace("{each}", str(bad))
                config = row.get("config", {})
                yield Case(rule, (*good,), (*path,), _given(bad), message, config)


def findings(
    rule: str,
    resources: Sequence[Resource],
    *,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    **config: Any,
) -> list[str]:
    """What the policy of this name says of the resources, asked as the engine asks.

    `settings` are those of `policy/config.json`, `config` is the engine's own configuration.
    """
    pack = POLICIES if settings is None else policies(settings)
    (policy,) = [policy for policy in pack if policy.name == rule]
    said: list[str] = []

    def report(message: str, urn: str | None = None) -> None:
        said.append(message)

    if isinstance(policy, ResourceValidationPolicy):
        for resource in resources:
            policy.validate(
                ResourceValidationArgs(
                    resource.type,
                    unknown_checking_proxy(_wire(resource.props)),
                    resource.urn,
                    resource.name,
                    _options(resource),
                    _provider(resource),
                    config or None,
                ),
                report,
            )
        return said
    assert isinstance(policy, StackValidationPolicy)
    DECLARED.clear()
    policy.validate(StackValidationArgs(_stack(resources), config or None), report)
    return said


def _stack(resources: Sequence[Resource]) -> list[PolicyResource]:
    shown = {
        resource.urn: PolicyResource(
            resource.type,
            unknown_checking_proxy(_wire(resource.props)),
            resource.urn,
            resource.name,
            _options(resource),
            _provider(resource),
            None,
            [],
            {},
        )
        for resource in resources
    }
    for resource in resources:
        shown[resource.urn].property_dependencies = {
            key: [shown[urn] for urn in urns] for key, urns in resource.uses.items()
        }
    return list(shown.values())


def _wire(value: Any) -> Any:
    if value is UNKNOWN:
        return UNKNOWN_STRING_VALUE
    if isinstance(value, dict):
        return {key: _wire(item) for key, item in value.items()}
    return [_wire(item) for item in value] if isinstance(value, list) else value


def _options(resource: Resource) -> PolicyResourceOptions:
    timeouts = PolicyCustomTimeouts(0, 0, 0)
    ignored = list(resource.ignore_changes)
    return PolicyResourceOptions(resource.protect, ignored, None, [], timeouts, [])


def _provider(resource: Resource) -> PolicyProviderResource | None:
    if resource.provider is None:
        return None
    return PolicyProviderResource("pulumi:providers:kubernetes", {}, "", resource.provider)
