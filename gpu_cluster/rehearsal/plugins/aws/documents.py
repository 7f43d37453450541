"""JSON documents in inputs, such as policies, compared by content and not by formatting."""

import json
from typing import Any

from gpu_cluster.rehearsal.plugins.cloud.schema import UNKNOWN


def document_text(document: Any, before: Any) -> str:
    """The document as given if it still means the same, otherwise as IAM returns it."""
    text = json.dumps(document, separators=(",", ":")) if isinstance(document, dict) else document
    if isinstance(before, str) and before != UNKNOWN and json.loads(before) == json.loads(text):
        return before
    return str(text)
