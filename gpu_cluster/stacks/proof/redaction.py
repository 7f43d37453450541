"""Removes from a report what identifies an account, a project, an address or a person."""

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

_PATTERNS = (
    (r"\bv1:[\w+/=]{8,}:[\w+/=]+", "[secret]"),
    (r"arn:aws[\w-]*:\S+", "[ARN]"),
    (r"\b\w+://[^\s'\")]+", "[address]"),
    (r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+", "[e-mail]"),
    (r"\b(projects|organizations|folders|billingAccounts)/[^/\s'\"]+", r"\1/[redacted]"),
    (r"(?i)(project['\"]?[:=]['\"]?|project:?\s(?=['\"]|[\w.-]*[\d-][\w.-]*)['\"]?)[a-z][\w.:-]{3,}",
     r"\1[redacted]"),
    (r"\b((?:[\w-]+\.)?(?:pkg\.dev|gcr\.io))/[^/\s'\"]+", r"\1/[redacted]"),
    (r"[\w.-]+\.(?:amazonaws\.com(?:\.cn)?|gke\.goog|internal|googleusercontent\.com)\b",
     "[address]"),
    (r"(?<![\w.])(?<!version )(?<!driver )(?:1?\d?\d|2[0-4]\d|25[0-5])"
     r"(?:\.(?:25[0-5]|2[0-4]\d|1?\d?\d)){3}(?![\w.]*\d)(?:/\d+)?(?::\d+)?", "[address]"),
    (r"\bip-\d{1,3}(?:-\d{1,3}){3}\b", "[address]"),
    (r"(?i)(?<![\w:])(?:(?=[0-9a-f:]*::)(?=[0-9a-f:]*\d)[0-9a-f:]{3,39}"
     r"|[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){5,7})(?!\w)", "[address]"),
    (r"\bA(?:KI|SI|RO|ID|GP|IP|NP|BI|CC)A[A-Z0-9]{12,}\b(?::[\w.@-]+)?", "[ID]"),
    (r"(?<![0-9a-f])(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|mrk-[0-9a-f]{32})\b", "[ID]"),
    (r"(?<![\w-])[a-z]+-(?:[0-9a-f]{8}|[0-9a-f]{17})(?![\w-])", "[ID]"),
    (r"(?<!\d)\d{11,13}(?!\d)", "[account]"),
    (r"[\w+/=-]{40,}", "[redacted]"),
)  # fmt: skip
"""A form, and what replaces it. Account IDs of AWS have 12 digits, project numbers of Google 11 to
13; long words are certificates, tokens and keys."""
_FORMS = [(re.compile(form), instead) for form, instead in _PATTERNS]
_SECRET = re.compile(r"(?i)token|secret|passw|passphrase|_key|credential|project|account|_profile$")
_PLACES = re.compile(
    r"(?i)^pulumi:|[:.](region|zone|version)s?$|^gpu-cluster:(?!.*(project|bucket|registry|account"
    r"|principal|member|admin|caller|role|group|user|endpoint|address|subnetwork|context"
    r"|encryptionKey|notificationChannel)s?$)"
)
"""Keys of a config, with their path, whose values a report may have."""
_LEAST = 5
"""A shorter value is not treated as a secret: it may be part of an ordinary word."""
_WORDS = {"false", "default"}


class Redaction:
    """Replaces secrets that have a known form, and those whose value is known."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        """`config`: that of the stack, in its file or in the state: it has the project, the profile
        and so on. The environment has tokens and the user's home."""
        values = {
            os.environ.get("HOME", ""),
            *(text for name, text in os.environ.items() if _SECRET.search(name)),
            *(text for key, text in _texts("", config) if not _PLACES.search(key)),
        }
        known = sorted(values - _WORDS, key=len, reverse=True)
        words = "|".join(re.escape(value) for value in known if len(value) >= _LEAST)
        self._known = re.compile(rf"(?<![\w-])(?:{words})(?![\w-])") if words else None

    def text(self, text: str) -> str:
        """The text without secrets."""
        text = self._known.sub("[redacted]", text) if self._known else text
        for form, instead in _FORMS:
            text = form.sub(instead, text)
        return text

    def document(self, value: Any) -> Any:
        """A document without secrets in its texts; its keys are ours."""
        if isinstance(value, Mapping):
            return {key: self.document(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.document(item) for item in value]
        return self.text(value) if isinstance(value, str) else value


def _texts(path: str, value: Any) -> Iterator[tuple[str, str]]:
    """Path and text of every value; a list adds nothing to the path."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if path.endswith(".buckets"):
                yield path, str(key)
            yield from _texts(f"{path}.{key}" if path else str(key), item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(path, item)
    elif value is not None:
        yield path, str(value)
