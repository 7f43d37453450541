"""The pages of config keys: every key with its type, default and meaning.

Generated from the classes to which the settings are decoded, so that the tables cannot be outdated.
"""

import ast
import dataclasses
import inspect
import textwrap
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

from gpu_cluster.components.catalog.clouds import CLOUDS
from gpu_cluster.components.cluster import GPU_TAINT
from gpu_cluster.components.platforms import PLATFORMS
from gpu_cluster.components.scalers import unsupported
from gpu_cluster.components.schema.decode import camel, type_hints
from gpu_cluster.components.schema.limits import Example, unwrapped, words
from gpu_cluster.components.schema.outputs import NAMED, OUTPUT
from gpu_cluster.components.settings.blocks import BLOCKS
from gpu_cluster.tools.sections import REFERENCE, fill, table

T = TypeVar("T")

TYPES: Mapping[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}
"""Class of a value -> its name in JSON Schema."""


def spelled(platform: str) -> str:
    """The setting with which a stack file selects a platform of the table."""
    written = platform.removesuffix("-existing")
    return f"`platform: {written}`" + (" and `existing`" if written != platform else "")


_REGISTRY = "https://www.pulumi.com/registry/packages"
FOLDER = REFERENCE / "configuration"
PAGES: Mapping[str, tuple[str, Mapping[str, type]]] = {
    **{
        name: (
            platform.title,
            {
                f"`gpu-cluster:cluster` with {spelled(name)}": platform.settings.CLUSTER,
                f"`gpu-cluster:gpuPools.<name>` on {name}": platform.settings.POOL,
            },
        )
        for name, platform in PLATFORMS.items()
    },
    **{
        page: (
            title,
            {
                f"`gpu-cluster:{key}{'' if block.names is None else '.<name>'}`, everywhere": (
                    block.args
                )
                for key, block in BLOCKS.items()
                if block.page == page
            },
        )
        for page, title in (
            ("workloads", "Workloads, their data and queues, on every platform"),
            ("monitoring", "Monitoring and the GPU test, on every platform"),
        )
    },
}
"""File -> the page's title, and its tables: title -> the class."""
TABLES: Mapping[str, type] = {
    title: kind for _, tables in PAGES.values() for title, kind in tables.items()
}
"""All tables."""

_HEAD = """\
`make docs` writes this page from the classes that hold the settings. A key that is in no table is
refused with its path. A *string or output* may be another resource's output in
[your own program](../../how-to/use-the-package.md). Keys of other blocks: {others}.
"""


def pages() -> Mapping[str, str]:
    """File name without suffix -> the page's text."""
    return {file: _page(file) for file in PAGES}


def markdown() -> str:
    """All tables of all pages."""
    return "\n".join(_tables(tables) for _, tables in PAGES.values())


def platforms() -> str:
    """The section of the index with the pages of the platforms and those of the providers' keys."""
    own = ", ".join(f"[{row.title}]({name}.md)" for name, row in PLATFORMS.items())
    packages = [cloud.package for cloud in CLOUDS.values()]
    providers = ", ".join(
        f"[{package}]({_REGISTRY}/{package}/installation-configuration/)" for package in packages
    )
    return f"Keys of cluster and pools: {own}.\n\nThe providers' own keys: {providers}."


def shared_blocks() -> str:
    """The section of the index with the blocks that are the same on every platform."""
    rows = (
        (
            f"`gpu-cluster:{key}{'' if block.names is None else '.<name>'}`",
            " ".join(str(block.args.__doc__).split()).partition(". ")[0].removesuffix("."),
            f"[{block.page}]({block.page}.md)",
        )
        for key, block in BLOCKS.items()
    )
    return "\n".join(table(("block", "what it declares", "keys"), rows))


def write_keys() -> None:
    """Writes the pages, and the sections of their index."""
    fill(FOLDER / "index.md", "platforms", platforms())
    fill(FOLDER / "index.md", "blocks", shared_blocks())
    for file, text in pages().items():
        (FOLDER / f"{file}.md").write_text(text)


def _page(file: str) -> str:
    title, tables = PAGES[file]
    others = ", ".join(f"[{other}]({other}.md)" for other in PAGES if other != file)
    return f"# {title}: every config key\n\n{_HEAD.format(others=others)}\n{_tables(tables)}"


def _tables(tables: Mapping[str, type]) -> str:
    """One table for each class, nested keys with their path."""
    parts = []
    first = next(iter(tables.values()))
    for title, kind in tables.items():
        hidden = refused(first, kind)
        rows = [row for row in _rows(kind, "") if _outer(row[0].strip("`")) not in hidden]
        parts.append(f"## {title}\n")
        parts += [*table(("key", "type", "default", "meaning"), rows), ""]
    return "\n".join(parts)


def _outer(key: str) -> str:
    """The first key of a path such as `fallback[].zones`."""
    return key.partition(".")[0].removesuffix("[]")


def refused(cluster: type, pool: type) -> set[str]:
    """The keys of a pool that a cluster always refuses, because its scaler is not a setting."""
    fixed = vars(cluster).get("scaler")
    if not isinstance(fixed, property):
        return set()
    (only,) = typing.get_args(fixed.fget.__annotations__["return"])
    marked = unsupported(pool).items()
    return {camel(name) for name, marks in marked if only in [mark.scaler for mark in marks]}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A key of a class of args, with the properties of its field."""

    key: str
    """`systemPool.diskSizeGb`; `<name>` stands for a name in a map, `[]` for a list's elements."""
    kind: Any
    """The type of its values, without `| None` and annotations."""
    annotations: Sequence[Any]
    default: Any
    """None also if the key is required, or its default is created by a function."""
    required: bool
    example: str | None
    """A required key's example, in YAML, if its field has one."""
    outer: "Setting | None"
    """The block that contains it, if that is a key as well."""
    leaf: bool
    """Whether it has a value and no further keys."""

    def marked(self, kind: type[T]) -> Sequence[T]:
        """The annotations of this class."""
        return [annotation for annotation in self.annotations if isinstance(annotation, kind)]

    def inherited(self, kind: type[T]) -> Sequence[T]:
        """The annotations of this class, or those of the nearest enclosing block that has any."""
        own = self.marked(kind)
        return self.outer.inherited(kind) if not own and self.outer else own


def settings(kind: type, prefix: str = "", outer: Setting | None = None) -> Iterator[Setting]:
    """All keys of a class and of the classes of its fields."""
    annotated, hints = type_hints(kind, include_extras=True), type_hints(kind)
    for field in dataclasses.fields(kind):
        plain_kind, annotations = unwrapped(annotated[field.name])
        inner, suffix = nested(hints[field.name])
        setting = Setting(
            key=prefix + camel(field.name),
            kind=plain_kind,
            annotations=annotations,
            default=None if field.default is dataclasses.MISSING else field.default,
            required=field.default is field.default_factory is dataclasses.MISSING,
            example=next((mark.text for mark in annotations if isinstance(mark, Example)), None),
            outer=outer,
            leaf=inner is None,
        )
        yield setting
        if inner is not None:
            yield from settings(inner, f"{setting.key}{suffix}.", setting)


def blocks(platform: str) -> Mapping[str, type]:
    """Config block -> the class to which it, or each of its entries, is decoded."""
    own = PLATFORMS[platform].settings
    shared = {key: block.args for key, block in BLOCKS.items()}
    return {"cluster": own.CLUSTER, "gpuPools": own.POOL, **shared}


def settings_of(platform: str) -> Iterator[Setting]:
    """All keys of a stack on the platform, such as `cluster.name`, `gpuPools.maxNodes`."""
    own = PLATFORMS[platform].settings
    hidden = refused(own.CLUSTER, own.POOL)
    for key, kind in blocks(platform).items():
        for setting in settings(kind, f"{key}."):
            inner = setting.key.removeprefix("gpuPools.")
            if key != "gpuPools" or _outer(inner) not in hidden:
                yield setting


def choices(hint: Any) -> tuple[Any, ...]:
    """The allowed values, if the type lists all of them; otherwise none."""
    return typing.get_args(hint) if typing.get_origin(hint) is typing.Literal else ()


def _rows(kind: type, prefix: str) -> Iterator[tuple[str, str, str, str]]:
    hints, described = type_hints(kind), meanings(kind)
    annotated = type_hints(kind, include_extras=True)
    for field in dataclasses.fields(kind):
        key, hint = prefix + camel(field.name), hints[field.name]
        yield (
            f"`{key}`",
            _type(annotated[field.name]),
            _default(field),
            described.get(field.name, ""),
        )
        inner, suffix = nested(hint)
        if inner is not None:
            yield from _rows(inner, f"{key}{suffix}.")


@cache
def meanings(kind: type) -> Mapping[str, str]:
    """The docstring of each attribute, in the class and its base classes, with the value of a
    constant that it names."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(tree, ast.ClassDef)
        for field, text in zip(tree.body, tree.body[1:], strict=False):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(text, ast.Expr)
                and isinstance(text.value, ast.Constant)
            ):
                found[field.target.id] = " ".join(str(text.value.value).split())
    return {name: text.replace("GPU_TAINT", str(GPU_TAINT)) for name, text in found.items()}


def plain(hint: Any) -> Any:
    """A type without `| None`; of a word or a map, the map."""
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        *_, hint = [part for part in typing.get_args(hint) if part is not types.NoneType]
    return hint


def nested(hint: Any) -> tuple[type | None, str]:
    """The class of a key's values, or None, and the placeholder for their names in the path."""
    hint = plain(hint)
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    for suffix, kind in (
        ("", hint),
        (".<name>", inner[-1] if origin is Mapping else None),
        ("[]", plain(inner[0]) if origin is Sequence else None),
    ):
        if dataclasses.is_dataclass(kind):
            return typing.cast("type", kind), suffix
    return None, ""


def _type(hint: Any) -> str:
    if short := words(hint):
        rest = _type(short[1])
        return f"{_type(short[0])} or {'maps' if rest == 'map' else rest}"
    hint, marks = unwrapped(hint)
    if OUTPUT in marks:
        return "string or output"
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return " | ".join(f"`{choice}`" for choice in inner)
    if origin is Mapping:
        return f"map of {_plural(inner[1])}"
    if NAMED in marks:
        return "list of strings, or map of strings or outputs"
    if origin is Sequence:
        return f"list of {_plural(inner[0])}"
    if dataclasses.is_dataclass(hint):
        return "map"
    return TYPES[hint]


def _plural(hint: Any) -> str:
    word = _type(hint)
    return word if word.startswith("`") else f"{word.replace(' or', 's or')}s"


def _default(field: "dataclasses.Field[Any]") -> str:
    if field.default_factory is not dataclasses.MISSING:
        return ""
    if field.default is dataclasses.MISSING:
        return "**required**"
    if field.default is None or field.default == ():
        return ""
    if isinstance(field.default, bool):
        return f"`{str(field.default).lower()}`"
    if isinstance(field.default, str | int | float):
        return f"`{field.default}`"
    if all(isinstance(item, str) for item in field.default):
        return f"`[{', '.join(field.default)}]`"
    return "the GPU taint"
