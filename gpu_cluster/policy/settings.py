"""A user's settings of the rules: `policy/config.json`, committed with the pack.

Everything that runs the pack uses these settings without a flag: rehearsals, tests in continuous
integration and `pulumi up --policy-pack policy`. The engine's own `--policy-pack-config` takes
precedence. docs/reference/policies.md lists every rule with its settings.
"""

import json
import os
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_cluster.policy.schema import LEVEL

if TYPE_CHECKING:  # The command line reads the settings without the policy SDK.
    from gpu_cluster.policy.binding import Rule

FILE = Path(__file__).resolve().parents[2] / "policy" / "config.json"
ELSEWHERE = "GPU_CLUSTER_POLICY_SETTINGS"
"""Environment variable with the path of another file: the program's own tests set it."""
_LEVELS = ("mandatory", "advisory", "disabled")
_TYPES: Mapping[str, tuple[type, ...]] = {
    "array": (list,), "string": (str,), "integer": (int,), "number": (int, float),
    "object": (dict,), "boolean": (bool,),
}  # fmt: skip
_WORDS = {"array": "a list", "object": "a map", "integer": "an integer"}


def read_settings(rules: "Sequence[Rule]", file: Path = FILE) -> Mapping[str, Mapping[str, Any]]:
    """Rule -> its settings. Raises ValueError, in one line, for unknown rules or settings."""
    file, settings = parsed(file)
    return checked(settings, rules, str(file))


def parsed(file: Path = FILE) -> tuple[Path, Any]:
    """The file, and its parsed JSON. Raises ValueError, in one line."""
    file = Path(os.environ.get(ELSEWHERE) or file)
    try:
        text = file.read_text()
    except OSError as error:
        raise ValueError(f"{file}: cannot be read: {error.strerror}") from None
    try:
        return file, json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file}: is not JSON: {error}") from None


def checked(settings: Any, rules: "Sequence[Rule]", file: str) -> Mapping[str, Mapping[str, Any]]:
    """The settings, unchanged, if every key is known and every value has the right type."""
    if not isinstance(settings, dict):
        raise ValueError(f"{file}: is not a map of rules; give {{}} if nothing is set")
    by_name = {rule.name: rule for rule in rules}
    for name, rule_settings in settings.items():
        if name not in by_name:
            raise ValueError(f"{file}: {_unknown(name, 'rule', list(by_name))}")
        if not isinstance(rule_settings, dict):
            raise ValueError(f"{file}: {name} is not a map of settings")
        schema = by_name[name].settings
        for key, value in rule_settings.items():
            where = f"{file}: {name}.{key}"
            if key == LEVEL:
                if value not in _LEVELS:
                    raise ValueError(f"{where}: {value!r} is not one of {', '.join(_LEVELS)}")
            elif key not in schema:
                raise ValueError(f"{file}: {name}.{_unknown(key, 'setting', [*schema, LEVEL])}")
            elif fault := _fault(value, schema[key]):
                raise ValueError(f"{where}: {fault}")
    return settings


def _unknown(name: str, what: str, known: Sequence[str]) -> str:
    near = get_close_matches(name, known, n=1)
    meant = f"; did you mean {near[0]}?" if near else f"; allowed: {', '.join(known)}"
    return f"{name}: there is no such {what}{meant}"


def _fault(value: Any, schema: Mapping[str, Any]) -> str | None:
    kind = schema["type"]
    fits = isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))
    if not fits:
        return f"{value!r} is not {_WORDS.get(kind, f'a {kind}')}"
    if kind == "array":
        return next((fault for item in value if (fault := _fault(item, schema["items"]))), None)
    if kind == "object":
        inner = schema["additionalProperties"]
        return next(
            (f"{key}: {fault}" for key, row in value.items() if (fault := _fault(row, inner))), None
        )
    if kind in ("integer", "number"):
        low, high = schema.get("minimum", value), schema.get("maximum", value)
        if not low <= value <= high:
            return f"{value} is not from {low} to {high}"
    return None
