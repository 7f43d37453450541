"""What a single setting may be beyond its type, as JSON Schema has it: patterns, bounds, lists.

Each follows from a constant of the class that checks the setting, or from the catalog. What several
settings decide together is not here: no schema says it in words that help.
"""

import re
from collections.abc import Mapping
from typing import Any

from components import limits
from components.eks.regions import REGION
from components.gke.sign_in import PROJECT

Fragment = Mapping[str, Any]


def matching(pattern: re.Pattern[str], *others: re.Pattern[str]) -> dict[str, Any]:
    """The whole value matches one of these, written as ECMA-262 has it: no named groups."""
    return limits.pattern(pattern, *others)


LIMITS: Mapping[str, Mapping[str, Fragment]] = {}
"""Class -> field -> what its value may be. A class that derives from another has its limits too."""

PROVIDERS: Mapping[str, Fragment] = {
    "gcp:project": PROJECT.fragment,
    "aws:region": matching(REGION),
}
"""Keys of the providers' own config that the program reads, strings all."""

ASSUMED_ROLES: Fragment = {
    "type": "array",
    "maxItems": 1,
    "items": {"type": "object", "required": ["roleArn"], "properties": {"externalId": False}},
}
"""`aws:assumeRoles`, of which `aws eks get-token` can assume one."""
