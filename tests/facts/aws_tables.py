"""Our tables of AWS beside what others maintain: each comparison yields a line per difference."""

import json
import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from moto.iam.aws_managed_policies import aws_managed_policies_data

from rehearsal.plugins.cloud import facts
from tests.facts import aws_sources as aws
from tests.facts import sent

NAMES: Mapping[str, Any] = yaml.safe_load(Path(__file__).with_name("aws_names.yaml").read_text())
LIMITS = {
    "min": ("min", "minimum"),
    "max": ("max", "maximum"),
    "min_length": ("min", "minLength", "minItems"),
    "max_length": ("max", "maxLength", "maxItems"),
}
"""Our word for a bound -> botocore's and CloudFormation's."""


def sources(token: str, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Who describes the input, and how."""
    row = NAMES[token]
    named = _named(row.get("names", {}), path)
    if "cloudformation" in row:
        inside = f"{row['inside']['cloudformation']}." if "inside" in row else ""
        found = aws.schema_at(row["cloudformation"], named.get("cloudformation", inside + path))
        if found is not None:
            yield "CloudFormation", found
    service, shape = row["botocore"]
    if "shape" in named:
        yield "botocore", aws.shapes(service)[named["shape"]]
    elif (found := aws.shape_at(service, shape, named.get("botocore", path))) is not None:
        yield "botocore", found


def _named(names: Mapping[str, Any], path: str) -> Mapping[str, str]:
    """The path by others' names, where it or what it lies in has another one."""
    for ours, others in names.items():
        if path == ours or path.startswith((f"{ours}.", f"{ours}[")):
            return {who: other + path[len(ours) :] for who, other in others.items()}
    return {}


def types() -> Iterator[tuple[str, Any]]:
    for token in sorted(facts.types()):
        if token.startswith("aws:"):
            yield token, facts.of(token)


def enums() -> Iterator[str]:
    """The plugin's allowed values, with botocore and CloudFormation."""
    for token, known in types():
        for path, ours in known.enums.items():
            lists = {who: set(node["enum"]) for who, node in sources(token, path) if "enum" in node}
            yield from differences(f"{token} {path}", set(ours), lists)


def bounds() -> Iterator[str]:
    """The plugin's least and most, with botocore and CloudFormation."""
    for token, known in types():
        for path, ours in known.bounds.items():
            for kind, value in ours.items():
                where = f"{token} {path} {kind}"
                theirs = {
                    who: node[word]
                    for who, node in sources(token, path)
                    for word in LIMITS[kind]
                    if word in node
                }
                if not theirs:
                    yield f"{where} {value}: no source has a limit"
                for who, other in theirs.items():
                    if other != value:
                        yield f"{where} {value}: {who} has {other}"


def replacements() -> Iterator[str]:
    """The plugin's immutable inputs, with CloudFormation's createOnlyProperties."""
    for token, known in types():
        row = NAMES[token]
        if "cloudformation" not in row:
            continue
        theirs = {path.lower() for path in aws.create_only(row["cloudformation"])}
        ours = {_their_name(row, path) for path in known.immutable if not _of_the_provider(path)}
        for path in sorted(theirs - ours):
            yield f"{token} {path}: only CloudFormation replaces"
        for path in sorted(ours - theirs):
            if not any(path.startswith(f"{whole}.") for whole in theirs):
                yield f"{token} {path}: CloudFormation replaces nothing"


def _their_name(row: Mapping[str, Any], path: str) -> str:
    path = path.removesuffix(".*")
    name = row.get("names", {}).get(path, {}).get("cloudformation", path)
    return str(name).replace("[]", "").lower()


def _of_the_provider(path: str) -> bool:
    """Every resource's own region, and names with a generated end, are not of AWS's APIs."""
    return path == "region" or path.endswith("Prefix")


def iam_actions() -> Iterator[str]:
    """Every action of every policy that the program declares, with the list that cfn-lint has."""
    known = json.loads((files("cfnlint.data.AdditionalSpecs") / "Policies.json").read_text())
    for action in sorted({action for text in _policies() for action in _actions(text)}):
        service, _, name = action.partition(":")
        if name.lower() not in known.get(service, {}).get("Actions", {}):
            yield f"{action}: IAM has no such action"


def _policies() -> Iterator[str]:
    for each in sent.registered("eks"):
        for key in ("assumeRolePolicy", "policy"):
            if isinstance(text := each.inputs.get(key), str) and text.startswith("{"):
                yield text


def _actions(document: str) -> Iterator[str]:
    for statement in json.loads(document)["Statement"]:
        given = statement["Action"]
        yield from [given] if isinstance(given, str) else given


def managed_policies() -> Iterator[str]:
    """Every policy of AWS's own that the program attaches, with the list that moto has."""
    known = json.loads(aws_managed_policies_data)
    for each in sent.registered("eks"):
        if each.type == "aws:iam/rolePolicyAttachment:RolePolicyAttachment":
            arn = str(each.inputs["policyArn"])
            if arn.startswith("arn:aws:iam::aws:policy/"):
                name = arn.rpartition("/")[2]
                if name not in known:
                    yield f"{name}: IAM has no such policy"


def values_sent() -> Iterator[str]:
    """Every value that the program sends, with the enums, patterns and limits of its input."""
    found = set()
    for each in sent.registered("eks"):
        if each.type in NAMES:
            for path, value in sent.leaves(each.inputs):
                for who, node in sources(each.type, path):
                    if reason := _refused(value, node):
                        found.add(f"{each.type} {path}: {who}: {reason}")
    yield from sorted(found)


def _refused(value: Any, node: Mapping[str, Any]) -> str | None:
    if "enum" in node and value not in node["enum"]:
        return f"{value} is none of {', '.join(map(str, node['enum']))}"
    if isinstance(value, str) and not _matches(value, node.get("pattern", "")):
        return f"{value} does not match {node['pattern']}"
    size = len(value) if isinstance(value, str) else value
    if isinstance(size, int | float) and not isinstance(value, bool):
        least = [node[word] for word in ("min", "minimum", "minLength") if word in node]
        most = [node[word] for word in ("max", "maximum", "maxLength") if word in node]
        if any(size < bound for bound in least) or any(size > bound for bound in most):
            return f"{value} is outside {least or ''} to {most or ''}"
    return None


def _matches(value: str, pattern: str) -> bool:
    """Patterns are Java's: what Python cannot read is no difference."""
    try:
        return re.search(pattern, value) is not None
    except re.error:
        return True


def differences(where: str, ours: set[Any], lists: Mapping[str, set[Any]]) -> Iterator[str]:
    """What others have and we do not, and the other way round."""
    if not lists:
        yield f"{where}: no source lists its values"
    for who, theirs in lists.items():
        for value in sorted(theirs - ours, key=str):
            yield f"{where}: {who} also has {value}"
        for value in sorted(ours - theirs, key=str):
            yield f"{where}: {who} lacks {value}"


COMPARISONS = {
    "aws enums": enums,
    "aws bounds": bounds,
    "aws replacements": replacements,
    "aws iam actions": iam_actions,
    "aws managed policies": managed_policies,
    "aws values sent": values_sent,
}
