"""The page of policies: every rule of the policy pack."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from gpu_cluster.policy.binding import Rule
from gpu_cluster.policy.host_paths import ALLOWED
from gpu_cluster.policy.pack import RULES
from gpu_cluster.policy.standard import CONTROLS
from gpu_cluster.policy.system_pods import SYSTEM_PODS
from gpu_cluster.tools.sections import REFERENCE, TEMPLATES, page, table

PAGE = REFERENCE / "policies.md"


def markdown() -> str:
    """The page's text."""
    return page(
        TEMPLATES / PAGE.name,
        rules=table(
            ("rule", "weight", "ensures that", "settings and their defaults"), map(_row, RULES)
        ),
        controls=table(
            ("control", "id", "level", "allowed"),
            ((row.title, f"`{row.id}`", row.level, row.allowed) for row in CONTROLS),
        ),
        paths=table(
            ("directory", "may be mounted for", "why"),
            (
                (f"`{allowed.path}`", "writing" if allowed.writable else "reading", allowed.why)
                for allowed in ALLOWED
            ),
        ),
        pods=table(
            ("namespace/kind/name", "controls", "directories of the node", "why"),
            (
                (f"`{pod.pattern}`", _codes(pod.controls), _codes(pod.paths), pod.why)
                for pod in SYSTEM_PODS
            ),
        ),
    )


def _row(rule: Rule) -> tuple[str, ...]:
    settings = "<br>".join(_setting(key, field) for key, field in rule.settings.items())
    weight = f"{rule.level.value}, {rule.severity.value}"
    return f"`{rule.name}`", weight, rule.reason, settings


def _setting(key: str, field: Mapping[str, Any]) -> str:
    default = "unset" if field["default"] is None else f"`{json.dumps(field['default'])}`"
    return f"`{key}`: {default} {field['description']}"


def _codes(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)
