"""Questions that another user of this machine asks."""

import os
import subprocess
import sys

import pytest

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
"""For everybody else, there is nobody else to be."""

BECOME = """
import os, sys
import encodings.idna, encodings.latin_1, encodings.unicode_escape
user = sys.argv.pop(1)
if user:
    os.setgroups([])
    os.setgid(int(user))
    os.setuid(int(user))
print(ask(*sys.argv[1:]))
"""
"""The process changes its user once it has imported what it needs, codecs included: another user
may not be able to read this checkout, its Python packages or Python itself."""


def asked(question: str, user: int | None, *arguments: object) -> str:
    """What `ask(*arguments)`, which the source text `question` defines, returns as this user.

    None is the user who runs the tests.
    """
    done = subprocess.run(
        [sys.executable, "-c", question + BECOME, str(user or ""), *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd="/",
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"},
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
