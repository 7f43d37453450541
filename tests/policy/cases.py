"""What the tests of every rule share: good resources, and a change that breaks the rule."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

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

from policy.binding import DECLARED
from policy.pack import POLICIES, policies
from policy.reading import UNKNOWN, Resource

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


Row = (
    tuple[tuple[Resource, ...], Path, Any, str]
    | tuple[tuple[Resource, ...], Path, Any, str, dict[str, Any]]
)
Rows = Mapping[str, Sequence[Row]]
"""Rule -> what a `Case` has beside it: good, path, bad, message, and config where there is one."""


def cases_of(rows: Rows) -> list[Case]:
    """A case for each row."""
    return [
        Case(rule, good, path, bad, message, *config)
        for rule, under in rows.items()
        for good, path, bad, message, *config in under
    ]


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
