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
anything is changed; rehearsals and pull requests run under them. A *mandatory* rule refuses the
change, an *advisory* one warns. A value that a preview does not know yet is not a violation. The
rules see every resource of the stack, not only what this program declares. What they do not
cover is in [security.md](security.md).

## Settings

`policy/config.json` sets what the table below lists. It is committed, and whoever runs the rules
reads it: `gpu-cluster rehearse`, continuous integration, `pulumi up --policy-pack policy`. A key
that no rule has is refused in one line. The engine's own `--policy-pack-config` takes precedence.
Every rule also has `enforcementLevel`: `mandatory`, `advisory` or `disabled`.

```json
{
  "monthly-ceiling": {"stacks": {"prod": 97500, "train-*": 250000}},
  "gpu-pool-minimum": {"stacks": ["prod", "serving-*"]},
  "host-paths": {"paths": ["/lustre"]},
  "pod-security-baseline": {"exempt": {"kube-system/DaemonSet/my-agent": ["hostNamespaces"]}}
}
```

Patterns are those of a shell: `*` is any text. A list takes the place of the default as a whole.
"""
_STANDARD = """## Pod Security Standards

The controls of `pod-security-baseline` and `pod-security-restricted`, as [Kubernetes' own
table](https://kubernetes.io/docs/concepts/security/pod-security-standards/) has them, for every
kind that makes pods: Pod, PodTemplate, Deployment, DaemonSet, StatefulSet, ReplicaSet,
ReplicationController, Job, CronJob, lists and patches of these, and custom resources wherever
they hold a pod's template (JobSet, PyTorchJob, RayCluster). Init and ephemeral containers count.
An exemption names a control by its id.
"""
_PATHS = """## Directories of the node

`host-paths` takes the place of the standard's *HostPath Volumes*, which allows none.
`driverLibraries`, `gpuTest.mounts` and persistent volumes are judged by it. What is not here,
or in its setting `paths`, is the node's own.
"""
_SYSTEM = """## Pods with powers over their node

No namespace is exempt. These DaemonSets of the stack are, by name, from these controls alone.
"""


def markdown() -> str:
    """The page."""
    return "\n".join([
        _HEAD,
        "## Rules\n",
        *table(("rule", "weight", "keeps that", "settings and their defaults"), map(_row, RULES)),
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
