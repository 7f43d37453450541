"""A plugin of mypy: of the clouds' SDKs it reads the modules that the program uses.

The SDKs have 284 MB of source, of which the program uses a tenth. The others are not read, and
their names would be Any.
"""

import ast
import importlib.util
from collections.abc import Iterable, Iterator
from pathlib import Path

from mypy.options import Options
from mypy.plugin import Plugin

from gpu_cluster.components.catalog.clouds import CLOUDS

_PACKAGES = ("kubernetes", *(cloud.package for cloud in CLOUDS.values()))
SDKS = tuple(f"pulumi_{package.replace('-', '_')}" for package in _PACKAGES)
_SHARED = ("_enums", "_inputs", "_utilities", "outputs", "provider")
"""Modules of a package of the SDKs that its other modules use."""


def plugin(version: str) -> type[Plugin]:
    """What mypy calls."""
    return SdkModules


class SdkModules(Plugin):
    """Has mypy follow the imports of these modules; it changes no type."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        options.per_module_options |= {f"{sdk}.*": {"follow_imports": "skip"} for sdk in SDKS}
        rooms = [Path(room) for room in options.packages or ()]
        rooms += [path for room in rooms for path in room.iterdir() if path.is_symlink()]
        for pattern in patterns(file for room in rooms for file in room.rglob("*.py")):
            options.per_module_options[pattern] = {"follow_imports": "normal"}
        options._per_module_cache = None  # noqa: SLF001 - it was filled before


def patterns(files: Iterable[Path]) -> set[str]:
    """The modules that these files use, and those that they need in turn, as in mypy's file."""
    texts = [file.read_text() for file in files]
    used = {name for text in texts if any(sdk in text for sdk in SDKS) for name in modules(text)}
    shared = {f"{sdk}.{name}" for sdk in SDKS for name in _SHARED}
    return {*shared, *used, *(f"{package}.*" for name in used for package in _package(name))}


def _package(name: str) -> Iterator[str]:
    """`pulumi_gcp.storage`, `pulumi_kubernetes.core.v1`: what has classes, of which one has another
    as an argument."""
    parts = name.split(".")
    depth = 3 if parts[0] == "pulumi_kubernetes" else 2
    if len(parts) >= depth:
        yield ".".join(parts[:depth])


def modules(source: str) -> Iterator[str]:
    """The modules of the SDKs that a program names, `aws.eks` in `aws.eks.Cluster` among them."""
    tree, aliases = ast.parse(source), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield from _module(name.name)
                if name.name.startswith(SDKS):
                    package = name.name.partition(".")[0]
                    aliases[name.asname or package] = name.name if name.asname else package
        elif isinstance(node, ast.ImportFrom) and node.module:
            for name in node.names:
                yield from _module(f"{node.module}.{name.name}")
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            root, _, rest = ast.unparse(node).partition(".")
            if root in aliases:
                yield from _module(f"{aliases[root]}.{rest}")


def _module(name: str) -> Iterator[str]:
    """A dotted name's beginnings that are modules of an SDK."""
    package, *parts = name.split(".")
    if package not in SDKS:
        return
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations
    folder, found = Path(spec.submodule_search_locations[0]), package
    yield found
    for part in parts:
        if not (folder / part).is_dir() and not (folder / f"{part}.py").is_file():
            break
        folder, found = folder / part, f"{found}.{part}"
        yield found
