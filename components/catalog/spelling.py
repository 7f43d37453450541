"""Spellings of names, and the name that a misspelt one most likely means."""

import difflib
from collections.abc import Collection
from functools import cache


def nearest(word: str, known: Collection[str], cutoff: float) -> str | None:
    """The name most similar to `word`, preferably with the same letters in another order; None if
    none reaches the similarity `cutoff`, 0 to 1. Names of less than half the length are ignored."""
    long = [name for name in known if len(name) > len(word) / 2]
    near = difflib.get_close_matches(word, long, n=3, cutoff=cutoff)
    return min(near, key=lambda item: sorted(item) != sorted(word), default=None)


@cache
def camel(name: str) -> str:
    """`max_nodes` -> `maxNodes`."""
    head, *tail = name.split("_")
    return head + "".join(word.capitalize() for word in tail)
