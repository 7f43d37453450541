"""The effect of a setting, in the annotation of its field: where it is sent, and values to try.

    disk_type: Annotated[str | None, Sent("NodePool nodeConfig.diskType"), Tries("pd-ssd")] = None

Nothing that runs in a stack reads them. The changes of the fault injection, the test that each
setting has an effect and the configs that tests draw are derived from them. Like the args classes,
this module does without an SDK.
"""

from collections.abc import Mapping
from typing import Any


class Sent:
    """The resource inputs in which the setting appears, each as `TYPE path`.

    TYPE is the name of the resource's class, `PodSpec` for the pods of any resource that has some,
    or `ObjectMeta` for the metadata of any Kubernetes object. `path` is in camelCase, with `[]` for
    the elements of a list, or a resource option in parentheses. An input covers everything below
    it, a type without a path the whole resource. If the input is another resource's output, name
    the block around it: tests do not know the output's value.
    """

    def __init__(self, *inputs: str) -> None:
        self.inputs = inputs


class Silent:
    """The setting does not appear in any resource's inputs, for this reason."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


class Tries:
    """Values that a stack's setting may be changed to, instead of those from its type and limits.
    `given`: other settings of the same block that they need, by key; None removes one."""

    def __init__(self, *values: Any, given: Mapping[str, Any] | None = None) -> None:
        self.values = values
        self.given = given or {}
