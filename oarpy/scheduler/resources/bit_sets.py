"""Sets of resources as Python integers: bit *i* stands for the *i*-th resource of the platform."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def bits_at(places: Sequence[int]) -> int:
    """Return the set of these positions.

    >>> bin(bits_at([0, 3]))
    '0b1001'
    """
    if len(places) < 16:
        bits = 0
        for place in places:
            bits |= 1 << place
        return bits
    flags = np.zeros(max(places) + 1, dtype=np.uint8)
    flags[places] = 1
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


def positions(bits: int) -> list[int]:
    """Return the positions in the set, ascending.

    >>> positions(0b1001)
    [0, 3]
    """
    ascending: list[int] = np.flatnonzero(flags(bits)).tolist()
    return ascending


def flags(bits: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """Return one byte per position, 1 for members; the length is a multiple of 8 that covers the highest member."""
    raw = bits.to_bytes((bits.bit_length() + 7) >> 3, "little")
    return np.unpackbits(np.frombuffer(raw, dtype=np.uint8), bitorder="little")


def lowest(bits: int, count: int) -> int:
    """Return the ``count`` lowest members; there must be that many.

    Often they follow each other. Where they do not, the range is halved again and again, so about twice the words of
    the set are touched.

    >>> bin(lowest(0b110110, 3))
    '0b10110'
    """
    if not count:
        return 0
    base = (bits & -bits).bit_length() - 1
    bits >>= base
    run = (1 << count) - 1
    if bits & run == run:
        return run << base
    kept, width = 0, bits.bit_length()
    while count:
        if width <= 1:
            return kept | (bits & 1) << base
        half = width >> 1
        low = bits & ((1 << half) - 1)
        inside = low.bit_count()
        if inside >= count:
            bits, width = low, half
            if inside == count:
                return kept | low << base
        else:
            kept |= low << base
            count -= inside
            bits >>= half
            base += half
            width -= half
    return kept
