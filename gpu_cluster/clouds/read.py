"""The data files of this folder."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

_FOLDER = Path(__file__).parent


def names(folder: str) -> list[str]:
    """The files in a folder, such as `rows`, without extension."""
    return sorted(file.stem for file in (_FOLDER / folder).glob("*.yaml"))


@cache
def read_facts(name: str) -> Mapping[str, Any]:
    """A file in this folder, by its name without extension, such as `rows/aws`; cached, so callers
    must not change it."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml takes 15 ms instead of 400.
    text = (_FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    return dict(yaml.load(text, Loader=loader))
