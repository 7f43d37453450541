"""What somebody meant who misspelt a name."""

import difflib
from collections.abc import Collection


def nearest(word: str, known: Collection[str], cutoff: float) -> str | None:
    """The name most like `word`, one with the same letters in another order first; None if none is
    as similar as `cutoff`, between 0 and 1. Nobody leaves out half of a name."""
    long = [one for one in known if len(one) > len(word) / 2]
    near = difflib.get_close_matches(word, long, n=3, cutoff=cutoff)
    return min(near, key=lambda one: sorted(one) != sorted(word), default=None)
