"""Amounts of consumables as users write them: ``16G``, ``512M``, ``3``; K, M, G and T are powers of 1024."""

from __future__ import annotations

import re

from oarpy.model.errors import UsageError

AMOUNT = re.compile(r"(\d{1,15})([KMGTkmgt]?)", re.ASCII)
LARGEST_AMOUNT = 2**53
"""Largest amount accepted; whole numbers stay exact up to here in JSON too."""

_UNITS = "KMGT"


def parse_amount(text: str, what: str = "amount") -> int:
    """Return the number meant by ``text``; raise :class:`UsageError` of ``what`` when it is no whole number above 0.

    >>> parse_amount("16G"), parse_amount("3")
    (17179869184, 3)
    """
    match = AMOUNT.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"'{text[:40]}' is not an amount", hint="a whole number, K, M, G or T behind it if need be")
    number, unit = match.groups()
    power = _UNITS.index(unit.upper()) + 1 if unit else 0
    amount: int = int(number) * 1024**power
    if not 0 < amount <= LARGEST_AMOUNT:
        raise UsageError(f"{what} '{text[:40]}' is out of range", hint="above 0, at most 8192T")
    return amount


def format_amount(amount: int) -> str:
    """Return an amount with the largest unit that leaves it whole.

    >>> format_amount(16 * 2**30), format_amount(1000), format_amount(0)
    ('16G', '1000', '0')
    """
    unit = 0
    while amount and amount % 1024 == 0 and unit < len(_UNITS):
        amount, unit = amount // 1024, unit + 1
    return f"{amount}{_UNITS[unit - 1] if unit else ''}"
