"""Resource quantities: `200m`, `1.5`, `512Mi`, `2G`, `1e3`.

Grammar, rounding and maximum as documented in k8s.io/apimachinery pkg/api/resource/quantity.go
(read 2026-11-21). That parser also accepts a sign, a point or a suffix without any digit as zero;
here, as in its grammar and in the pattern of its OpenAPI schema, a quantity has at least one digit.
"""

import re
from collections.abc import Mapping
from decimal import ROUND_UP, Context, Decimal
from typing import Any, Final

QUANTITY: Final = re.compile(
    r"([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?[0-9]{1,10}))?"
)
_FACTORS: Final[Mapping[str | None, Decimal]] = {
    None: Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", start=1)},
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", start=1)},
}
_LARGEST_BINARY: Final = Decimal(2**63 - 1)
"""The maximum of quantities with a binary suffix."""
_LARGEST_EXPONENT: Final = 2**31 - 1
_DIGITS: Final = 400
"""Quantities with more digits on either side cannot be compared here."""
_CONTEXT: Final = Context(prec=3 * _DIGITS, rounding=ROUND_UP)
_NANO: Final = Decimal("1e-9")


def parse(value: str | float) -> Decimal:
    """The value of a quantity: `200m` is 0.2, `1Ki` is 1024, `2e3` is 2000, `3.001n` is 4e-9.

    Digits beyond a billionth are rounded away from zero, and a binary quantity is at most 2^63 - 1.
    Raises ValueError, in one line, if `value` is not a valid quantity.
    """
    text = value if isinstance(value, str) else str(value)
    match = None if isinstance(value, bool) else QUANTITY.fullmatch(text)
    if match is None or len(text) > _DIGITS:
        shown = text if len(text) <= 40 else f"{text[:37]}..."
        meant = text.replace(" ", "").removesuffix("B")
        fix = f"; write {meant}" if meant != text and QUANTITY.fullmatch(meant) else ""
        raise ValueError(f"{shown!r} is not a quantity such as 200m, 1.5, 512Mi or 2G{fix}")
    sign, number, suffix, exponent = match.groups()
    power = int(exponent or 0)
    if abs(power) > _LARGEST_EXPONENT:
        raise ValueError(f"{text!r} is not a quantity: its exponent has more than 32 bits")
    amount = _CONTEXT.multiply(_CONTEXT.create_decimal(number), _FACTORS[suffix])
    if amount and power < -_DIGITS:
        amount = _NANO
    elif amount and power > _DIGITS:
        raise ValueError(f"{text!r} is too large a quantity")
    else:
        amount = amount.scaleb(power, _CONTEXT)
    amount = amount.quantize(_NANO, context=_CONTEXT)
    if suffix and suffix.endswith("i"):
        amount = min(amount, _LARGEST_BINARY)
    return -amount if sign == "-" else amount


def or_none(value: Any) -> Decimal | None:
    """The value of a quantity; None if it is not valid."""
    try:
        return parse(value) if isinstance(value, str | int | float) else None
    except ValueError:
        return None
