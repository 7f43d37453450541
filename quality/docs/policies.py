"""The page of policies: every rule of the policy pack."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from policy.binding import Rule
from policy.host_paths import ALLOWED
from policy.pack import RULES
from policy.standard import CONTROLS
from policy.system_pods import SYSTEM_PODS
from tools.sections import REFERENCE, table

PAGE = REFERENCE / "policies.md"

_HEAD = """# Policies

`make docs` writes this page from the policy pack itself.

The engine runs these rules in every preview and update with `--policy-pack policy`, before
anything is changed; rehearsals and pull requests run with them too. A *mandatory* rule refuses the
change, an *advisory* rule warns. A value that is unknown in a preview is not a violation. The rules
check every resource of the stack, not only those of this program. [security.md](security.md) lists
what they do not cover.

## Settings

`policy/config.json`, which is committed, has the settings that the table below lists.
`gpu-cluster rehearse`, continuous integration and `pulumi up --policy-pack policy` all read it. A
key that no rule has is refused in one line. The engine's own `--policy-pack-config` takes
precedence. Every rule also has `enforcementLevel`: `mandatory`, `advisory` or `disabled`.

```json
{
  "monthly-ceiling": {"stacks": {"prod": 97500, "train-*": 250000}},
  "gpu-pool-minimum": {"stacks": ["prod", "serving-*"]},
  "host-paths": {"paths": ["/lustre"]},
  "pod-security-baseline": {"exempt": {"kube-system/DaemonSet/my-agent": ["hostNamespaces"]}}
}
```

Patterns are shell patterns: `*` matches any text. A list replaces the whole default.
"""
_STANDARD = """## Pod Security Standards

The controls of `pod-security-baseline` and `pod-security-restricted`, as in [Kubernetes' own
table](https://kubernetes.io/docs/concepts/security/pod-security-standards/), for every kind that
creates pods: Pod, PodTemplate, Deployment, DaemonSet, StatefulSet, ReplicaSet,
ReplicationController, Job, CronJob, lists and patches of these, and custom resources wherever
they contain a pod template (JobSet, PyTorchJob, RayCluster). Init and ephemeral containers count.
An exemption names a control by its id.
"""
_PATHS = """## Directories of the node

`host-paths` replaces the standard's *HostPath Volumes*, which allows no directories at all. It also
applies to `driverLibraries`, `gpuTest.mounts` and persistent volumes. Pods may not mount
directories that are neither in this table nor in the rule's setting `paths`.
"""
_SYSTEM = """## Privileged pods

No namespace is exempt. The following DaemonSets of the stack are exempt by name, and only from the
controls that are listed.
"""


def markdown() -> str:
    """The page's text."""
    return "\n".join([
        _HEAD,
        "## Rules\n",
        *table(("rule", "weight", "ensures that", "settings and their defaults"), map(_row, RULES)),
        "",
        _STANDARD,
        *table(
            ("control", "id", "level", "allowed"),
            ((one.title, f"`{one.id}`", one.level, one.allowed) for one in CONTROLS),
        ),
        "",
        _PATHS,
        *table(
            ("directory", "may be mounted for", "why"),
            ((f"`{one.path}`", "writing" if one.writable else "reading", one.why)
             for one in ALLOWED),
        ),
        "",
        _SYSTEM,
        *table(
            ("namespace/kind/name", "controls", "directories of the node", "why"),
            ((f"`{one.pattern}`", _codes(one.controls), _codes(one.paths), one.why)
             for one in SYSTEM_PODS),
        ),
        "",
    ])  # fmt: skip


def _row(rule: Rule) -> tuple[str, ...]:
    settings = "<br>".join(_setting(key, field) for key, field in rule.settings.items())
    weight = f"{rule.level.value}, {rule.severity.value}"
    return f"`{rule.name}`", weight, rule.reason, settings


def _setting(key: str, field: Mapping[str, Any]) -> str:
    default = "unset" if field["default"] is None else f"`{json.dumps(field['default'])}`"
    return f"`{key}`: {default} {field['description']}"


def _codes(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)
