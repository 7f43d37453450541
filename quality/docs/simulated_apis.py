"""The page of Google's methods: those that a rehearsal simulates, and those that exist."""

from collections.abc import Iterator

from rehearsal.simulators.google import methods
from tools.google_discovery import Document, document
from tools.sections import REFERENCE, table

PAGE = REFERENCE / "simulated-apis.md"
_MORE = {("compute", "beta"), ("container", "v1beta1"), ("monitoring", "v3")}
"""The versions that are simulated in addition to each API's v1."""

_HEAD = """# Simulated APIs

`make docs` writes this page from the simulator and from Google's discovery documents.

A rehearsal's Google Cloud, and [`gpu-cluster simulate google`](../how-to/simulate-a-cloud.md),
answer these methods. Requests and answers are validated against Google's own documents: an unknown
field, a wrong type or an unknown enum value is refused. Any other method of a document is answered
with status 501 and its name.
"""


def markdown() -> str:
    """The page's text."""
    services = {name.partition(".")[0] for name in methods()}
    apis = sorted({(service, "v1") for service in services} | _MORE)
    documents = [found for api in apis if (found := document(*api)) is not None]
    head = ("API", "methods of the document", "simulated")
    rows = ((f"`{one.service}` {one.version}", *_counts(one)) for one in documents)
    parts = [_HEAD, *table(head, rows), ""]
    for service in sorted({one.service for one in documents}):
        parts += [f"## `{service}`\n", *_served(service), ""]
    return "\n".join(parts)


def _counts(api: Document) -> tuple[str, str]:
    return str(len(api.methods)), str(sum(name in methods() for name in api.methods))


def _served(service: str) -> Iterator[str]:
    """A line for each collection, with its verbs; all versions of an API are simulated alike."""
    verbs: dict[str, list[str]] = {}
    for name in sorted(methods()):
        if name.startswith(f"{service}."):
            collection, _, verb = name.removeprefix(f"{service}.").rpartition(".")
            verbs.setdefault(collection, []).append(verb)
    for collection, found in sorted(verbs.items()):
        yield f"- `{collection}`: {', '.join(found)}"
