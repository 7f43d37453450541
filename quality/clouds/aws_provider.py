"""AWS's resource types in its own Terraform provider, as `aws_provider.yaml` has them.

Of what the provider says, only sets, nested arguments that the cloud fills in, and how it validates
values have no other source here; a test compares the rest.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

SOURCE = (
    "hashicorp/terraform-provider-aws@ba227957 and newer files, quality/clouds/aws_provider.yaml"
)


@cache
def arguments() -> Mapping[str, Mapping[str, Any]]:
    """Type -> word of the file -> paths, or path -> value."""
    text = Path(__file__).with_name("aws_provider.yaml").read_text(encoding="utf-8")
    found: Mapping[str, Mapping[str, Any]] = yaml.safe_load(text)
    return found


def row(token: str) -> dict[str, Any]:
    """The facts about a type that no other source has."""
    arguments_ = arguments()[token]
    nested = [path for path in arguments_.get("computed", ()) if "." in path]
    words = ("arns", "networks", "bounds", "patterns", "only_with")
    found = {
        "sets": arguments_.get("sets"),
        "kept_when_removed": nested,
        **{word: arguments_.get(word) for word in words},
    }
    return {word: values for word, values in found.items() if values}
