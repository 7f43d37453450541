"""The bare program: the resources that another program registers, as one flat list of literals.

It has the same types, names and inputs, the same order through `depends_on`, and no components. Its
state is the other's without the components, so it changes nothing where the other changes nothing.
"""

import importlib
import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

from pulumi.runtime import rpc
from pulumi.runtime.proto import resource_pb2

from stacks.engine import state
from stacks.engine.state import PROVIDER_TYPE, ROOT_TYPE
from stacks.engine.urn import Urn, of_reference, reference

SECRET = "4dabf18193072939515e22adb298388d"
"""The key that marks a special value in a state; only secrets occur."""


def source(requests: Sequence[tuple[bytes, str]], outputs: Mapping[str, Any]) -> str:
    """The bare program's source. `requests`: recorded by `recorder`; `outputs`: the stack's."""
    names: dict[str, str] = {}
    packages: set[str] = set()
    body: list[str] = []
    for raw, urn in requests:
        request = resource_pb2.RegisterResourceRequest.FromString(raw)
        if not request.custom:
            continue
        package, path = _sdk_class(request.type)
        packages.add(package)
        inputs = rpc.deserialize_properties(request.object)
        given = _given(package, path, inputs)
        options = _options(request, names)
        names[urn] = f"r{len(names)}"
        arguments = [repr(request.name), *(f"{key}={_literal(v)}" for key, v in given.items())]
        if options:
            arguments.append(f"opts=pulumi.ResourceOptions({', '.join(options)})")
        body.append(f"{names[urn]} = {package}.{path}(\n    " + ",\n    ".join(arguments) + ",\n)")
    body += [f"pulumi.export({name!r}, {_literal(value)})" for name, value in outputs.items()]
    imports = [f"import {package}" for package in ("pulumi", *sorted(packages))]
    return "\n".join(['"""The same resources, literally."""', "", *imports, "", *body, ""])


def _options(request: Any, names: Mapping[str, str]) -> list[str]:
    """The options as Python source. Dependencies through properties are in `dependencies`, too."""
    before = [names[urn] for urn in dict.fromkeys(request.dependencies) if urn in names]
    options = [f"depends_on=[{', '.join(before)}]"] if before else []
    provider, _ = of_reference(request.provider)
    if provider in names:
        options.append(f"provider={names[provider]}")
    if request.deletedWith:
        options.append(f"deleted_with={names[request.deletedWith]}")
    for name, value in (
        ("protect", request.protect),
        ("delete_before_replace", request.deleteBeforeReplace),
        ("ignore_changes", list(request.ignoreChanges)),
        ("additional_secret_outputs", list(request.additionalSecretOutputs)),
    ):
        if value:
            options.append(f"{name}={value!r}")
    return options


def _sdk_class(token: str) -> tuple[str, str]:
    """`gcp:container/cluster:Cluster` -> the package `pulumi_gcp` and `container.Cluster` in it."""
    if token.startswith(PROVIDER_TYPE):
        return f"pulumi_{token.removeprefix(PROVIDER_TYPE)}", "Provider"
    package, module, name = token.split(":")
    if package != "kubernetes":
        return f"pulumi_{package}", f"{module.partition('/')[0].lower()}.{name}"
    group, version = module.split("/")
    path = f"{group.partition('.')[0]}.{version}"
    try:
        importlib.import_module(f"pulumi_kubernetes.{path}")
    except ImportError:
        return "pulumi_kubernetes", "apiextensions.CustomResource"
    return "pulumi_kubernetes", f"{path}.{name}"


def _given(package: str, path: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The constructor's arguments: Python names outside, wire names inside: both are allowed."""
    module, _, name = path.rpartition(".")
    sdk = importlib.import_module(".".join(filter(None, (package, module))))
    parameters = inspect.signature(getattr(sdk, name)._internal_init).parameters
    given = {}
    for wire, value in inputs.items():
        known = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", wire).lower()
        # A class for a kind, such as Deployment, already sets the kind.
        if wire in ("apiVersion", "kind") and known not in parameters:
            continue
        if known not in parameters:
            raise ValueError(f"{package}.{path} has no argument {known}")
        # A provider's inputs are strings; its constructor takes the value and serialises it.
        boolean = path.endswith("Provider") and value in ("true", "false")
        given[known] = value == "true" if boolean else value
    return given


def _literal(value: Any) -> str:
    """Python source for a value; a secret inside makes all of it secret, as in the engine."""
    secrets: list[Any] = []

    def plain(item: Any) -> Any:
        if rpc.is_rpc_secret(item):
            secrets.append(item)
            return plain(rpc.unwrap_rpc_secret(item))
        if isinstance(item, dict):
            return {key: plain(each) for key, each in item.items()}
        return [plain(each) for each in item] if isinstance(item, list) else item

    text = repr(plain(value))
    return f"pulumi.Output.secret({text})" if secrets else text


def outputs_of(deployment: Mapping[str, Any]) -> dict[str, Any]:
    """The stack's outputs in an exported state; secrets in the SDK's wire form."""
    (root,) = (r for r in state.resources(deployment) if r["type"] == ROOT_TYPE)

    def value(item: Any) -> Any:
        if isinstance(item, dict) and SECRET in item:
            return {
                rpc._special_sig_key: rpc._special_secret_sig,
                "value": json.loads(item["plaintext"]),
            }
        return item

    return {name: value(item) for name, item in root.get("outputs", {}).items()}


def flattened(deployment: Mapping[str, Any]) -> dict[str, Any]:
    """An exported state without its components: every resource becomes a child of the stack."""
    flat: dict[str, Any] = deepcopy(dict(deployment))
    resources = state.resources(flat)
    (root,) = (r["urn"] for r in resources if r["type"] == ROOT_TYPE)
    kept = [r for r in resources if r.get("custom") or r["type"] == ROOT_TYPE]
    urns = {r["urn"]: str(replace(Urn.parse(r["urn"]), parents=())) for r in kept}
    if len(set(urns.values())) != len(urns):
        raise ValueError("two resources differ only by their component: no flat program has both")
    gone = {r["urn"] for r in resources} - set(urns)
    for resource in kept:
        if resource.get("parent"):
            resource["parent"] = root
        resource["dependencies"] = [u for u in resource.get("dependencies") or [] if u not in gone]
    flat["deployment"]["resources"] = [_mapped(r, lambda text: _renamed(text, urns)) for r in kept]
    return flat


def _renamed(text: str, urns: Mapping[str, str]) -> str:
    if text in urns:
        return urns[text]
    urn, identity = of_reference(text)
    return reference(urns[urn], identity) if urn in urns else text


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): _mapped(item, change) for key, item in value.items()}
    return [_mapped(item, change) for item in value] if isinstance(value, list) else value


def write(folder: Path, text: str) -> None:
    """Writes the text as the `__main__.py` of a program in `folder`."""
    (folder / "__main__.py").write_text(text)
