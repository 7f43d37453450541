"""How the unit tests say which error they expect."""

import re


def one_line(says: str = "", begins: str = "") -> str:
    """The pattern of an error of one line that begins so, and says that."""
    return rf"\A{re.escape(begins)}.*{re.escape(says)}.*\Z"
