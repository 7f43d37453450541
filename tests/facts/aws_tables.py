"""Our tables of AWS beside what others maintain: each comparison yields a line per difference."""

import json
import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

from moto.iam.aws_managed_policies import aws_managed_policies_data

from gpu_cluster.clouds.read import read_facts
from gpu_cluster.rehearsal.plugins.cloud import facts
from gpu_cluster.rehearsal.plugins.cloud.schema import property_at, resource_schema
from quality.clouds import aws_models, aws_provider
from tests.facts import sent


def generated() -> Iterator[str]:
    """`gpu_cluster/clouds/generated/aws.yaml` is what `python -m quality clouds` would write."""
    types = read_facts("generated/aws")["types"]
    sources = {"models": (aws_models.names_of(), aws_models.row),
               "provider": (aws_provider.arguments(), aws_provider.row)}  # fmt: skip
    for source, (known, row_of) in sources.items():
        for token in sorted(types.keys() | known.keys()):
            row = types.get(token, {}).get(source, {})
            theirs = row_of(token) if token in known else {}
            for word in sorted(row.keys() | theirs.keys()):
                if row.get(word) != theirs.get(word):
                    yield (
                        f"{token} {word}: {row.get(word)} here, the {source} has {theirs.get(word)}"
                    )


def provider() -> Iterator[str]:
    """Every argument of AWS's own provider, with the rules of the offline plugin."""
    for token, told in aws_provider.arguments().items():
        known, shape = facts.of(token), resource_schema(token).inputs
        lists = ("replaces", "computed", "sets", "plain")
        defaults = told.get("defaults", {})
        for path in sorted({*defaults, *(path for word in lists for path in told.get(word, ()))}):
            if property_at(shape, path) is None:
                yield f"{token} {path}: the SDK has no such input"
            ours = {
                "replaces": any(known.replaces(entry) for entry in (path, f"{path}[]")),
                "computed": path in known.kept_when_removed or path in known.auto_named,
                "sets": path in known.sets,
            }
            for word, value in ours.items():
                if value != (path in told.get(word, ())):
                    yield f"{token} {path} {word}: {value} here, the provider has {not value}"
            if known.defaults.get(path) != defaults.get(path):
                yield (
                    f"{token} {path}: the default is {known.defaults.get(path)} here, the provider "
                    f"has {defaults.get(path)}"
                )
        for word in ("conflicts", "exactly_one_of", "at_least_one_of"):
            groups = [{*group} for group in getattr(known, word)]
            for group in told.get(word, ()):
                if not any({*group} <= other for other in groups):
                    yield f"{token} {word}: {', '.join(group)} is missing here"
        for path, others in told.get("required_with", {}).items():
            if {*others} != {*known.required_with.get(path, ())}:
                yield f"{token} {path}: the provider needs {', '.join(others)} as well"


def iam_actions() -> Iterator[str]:
    """Every action of every policy that the program declares, with the list that cfn-lint has."""
    known = json.loads((files("cfnlint.data.AdditionalSpecs") / "Policies.json").read_text())
    for action in sorted({action for text in _policies() for action in _actions(text)}):
        service, _, name = action.partition(":")
        actions = known.get(service, {}).get("Actions", {})
        if name.lower() not in actions and not (name == "*" and actions):
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
        if each.type in aws_models.names_of():
            for path, value in sent.leaves(each.inputs):
                for who, node in aws_models.described(each.type, path):
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


COMPARISONS = {
    "aws generated": generated,
    "aws iam actions": iam_actions,
    "aws managed policies": managed_policies,
    "aws provider": provider,
    "aws values sent": values_sent,
}
