"""What official providers said of single changes, kept in files beside this one."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml


def changes(file: str) -> pytest.MarkDecorator:
    """Parametrizes a test with every `kind` of a file and each `row` of it."""
    kinds = yaml.safe_load(Path(__file__).with_name(file).read_text())
    return pytest.mark.parametrize(
        ("kind", "row"),
        [
            pytest.param(kind, row, id=f"{kind}-{row['change']}-{row['verdict']}")
            for kind, rows in kinds.items()
            for row in rows
        ],
    )


def merged(inputs: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs with the changes in them, at any depth; null takes away."""
    found = dict(inputs)
    for name, value in changes.items():
        if value is None:
            found.pop(name, None)
        elif isinstance(value, dict) and isinstance(found.get(name), dict):
            found[name] = merged(found[name], value)
        else:
            found[name] = value
    return found
