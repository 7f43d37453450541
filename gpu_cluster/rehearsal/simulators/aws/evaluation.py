"""Whether IAM policy documents allow an action.

moto enforces policies on request (`set_initial_no_auth_action_count`), but according to its own
documentation (moto/iam/access_control.py, 5.2.5) without their resources and conditions, on which
the autoscaler's policy and the pods' trust policies depend.

Pure functions. They cover what such a stack's policies use: effects, actions and resources with
wildcards, the string, ARN, boolean and null conditions, and `${...}` variables.
"""

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Document = Mapping[str, Any]
Context = Mapping[str, str | tuple[str, ...]]
_VARIABLE = re.compile(r"\$\{([^}]+)\}")


class UnsimulatedConditionError(Exception):
    """A condition operator that is not evaluated here."""


def allowed(
    documents: Iterable[Document], action: str, resource: str = "*", context: Context | None = None
) -> bool:
    """Whether the identity-based policies allow `action` on `resource` (an ARN or `*`).

    `context`: the request's condition keys, such as `aws:ResourceTag/team`; a tuple for a key with
    several values, such as `aws:TagKeys`.
    """
    verdict = False
    for document in documents:
        for statement in statements(document):
            if _matches(statement, action, resource, context or {}):
                if statement.get("Effect") == "Deny":
                    return False
                verdict = True
    return verdict


def trusts(
    document: Document, service: str, *actions: str, context: Mapping[str, str] | None = None
) -> bool:
    """Whether a role's trust policy lets an AWS service assume the role with all these actions.

    `context`: the request's condition keys, such as `aws:RequestTag/kubernetes-namespace`.
    """
    return all(
        any(
            statement.get("Effect") == "Allow"
            and _principal(statement, service)
            and any(_like(pattern, action) for pattern in _list(statement.get("Action")))
            and _conditions(statement, context or {})
            for statement in statements(document)
        )
        for action in actions
    )


def statements(document: Document) -> list[Mapping[str, Any]]:
    """The statements of a policy document; a single one may be given without a list."""
    return _list(document.get("Statement"))


def _principal(statement: Mapping[str, Any], service: str) -> bool:
    principal = statement.get("Principal", {})
    return isinstance(principal, Mapping) and service in _list(principal.get("Service"))


def _matches(statement: Mapping[str, Any], action: str, resource: str, context: Context) -> bool:
    if "NotAction" in statement:
        if any(_like(pattern, action) for pattern in _list(statement["NotAction"])):
            return False
    elif not any(_like(text, action) for text in _list(statement.get("Action"))):
        return False
    if "NotResource" in statement:
        if any(_fits(text, resource, context) for text in _list(statement["NotResource"])):
            return False
    elif not any(_fits(text, resource, context) for text in _list(statement.get("Resource"))):
        return False
    return _conditions(statement, context)


def _conditions(statement: Mapping[str, Any], context: Context) -> bool:
    return all(
        _holds(operator, key, _list(wanted), context)
        for operator, keys in statement.get("Condition", {}).items()
        for key, wanted in keys.items()
    )


def _like(pattern: str, action: str) -> bool:
    """Actions are compared without regard to case."""
    return fnmatch.fnmatchcase(action.lower(), pattern.lower().replace("[", "[[]"))


def _fits(pattern: str, resource: str, context: Context) -> bool:
    return fnmatch.fnmatchcase(resource, _expand(pattern, context).replace("[", "[[]"))


def _expand(text: str, context: Context) -> str:
    lowered = {key.lower(): value for key, value in context.items() if isinstance(value, str)}
    return _VARIABLE.sub(lambda found: lowered.get(found[1].lower(), found[0]), text)


def _same(value: str, wanted: str) -> bool:
    return value == wanted


def _alike(value: str, wanted: str) -> bool:
    return fnmatch.fnmatchcase(value, wanted.replace("[", "[[]"))


def _caseless(value: str, wanted: str) -> bool:
    return value.lower() == wanted.lower()


_OPERATORS: Mapping[str, tuple[Callable[[str, str], bool], bool]] = {
    "StringEquals": (_same, True),
    "StringNotEquals": (_same, False),
    "StringEqualsIgnoreCase": (_caseless, True),
    "StringNotEqualsIgnoreCase": (_caseless, False),
    "StringLike": (_alike, True),
    "StringNotLike": (_alike, False),
    "ArnEquals": (_alike, True),
    "ArnLike": (_alike, True),
    "ArnNotEquals": (_alike, False),
    "ArnNotLike": (_alike, False),
    "Bool": (_caseless, True),
}
"""Operator -> comparison, and whether it must hold (or must not)."""


def _holds(operator: str, key: str, wanted: list[Any], context: Context) -> bool:
    value = next((given for name, given in context.items() if name.lower() == key.lower()), None)
    if isinstance(value, tuple):
        each_holds = [_holds(operator, key, wanted, {**context, key: single}) for single in value]
        return (any if operator.startswith("ForAnyValue:") else all)(each_holds)
    name = operator.rpartition(":")[2]  # both are equivalent for one value
    if name == "Null":
        return (value is None) == (str(wanted[0]).lower() == "true")
    bare = name.removesuffix("IfExists")
    if bare not in _OPERATORS:
        raise UnsimulatedConditionError(f"a rehearsal does not evaluate the condition '{operator}'")
    compare, must = _OPERATORS[bare]
    if value is None:
        return bare != name or not must or operator.startswith("ForAllValues:")
    texts = [str(text).lower() if isinstance(text, bool) else str(text) for text in wanted]
    return any(compare(value, _expand(text, context)) for text in texts) == must


def _list(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]
