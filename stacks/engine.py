"""What the engine said when it failed, in one line, and what to do about it where that is known."""

import json
from typing import Any

MOST = 500
"""Characters of a line that people still read."""
_REMEDIES = (
    ("PULUMI_ACCESS_TOKEN must be set", "nobody is signed in to a backend: run `pulumi login`"),
    ("passphrase must be set", "set PULUMI_CONFIG_PASSPHRASE, the passphrase of the backend"),
)
"""Part of what the engine says -> what to do."""


def remedy(text: str) -> str:
    """What to do about what the engine says; empty where that is not known."""
    return next((how for part, how in _REMEDIES if part in text), "")


def said(stderr: str, stdout: str = "") -> str:
    """One line: why the engine failed, from its output, which may be JSON (`preview --json`)."""
    text = "; ".join(_errors(stdout)) or stderr or stdout
    line = " ".join(text.split()).removeprefix("error: ")
    if how := remedy(line):
        return how
    return line if len(line) <= MOST else f"{line[:MOST].rstrip()} ..."


def _errors(stdout: str) -> list[str]:
    """The errors among the diagnostics of JSON output; empty where that is something else."""
    try:
        document = json.loads(stdout)
    except ValueError:
        return []
    found: Any = document.get("diagnostics") if isinstance(document, dict) else None
    lines = found if isinstance(found, list) else []
    return [str(one.get("message", "")) for one in lines if one.get("severity") == "error"]
