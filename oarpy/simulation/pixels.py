"""A picture of pixels: rectangles and short texts, written as PNG (ISO/IEC 15948) without further libraries."""

from __future__ import annotations

import struct
import zlib
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

Colour = tuple[int, int, int]
"""Red, green and blue, 0 to 255."""

GLYPH_WIDTH, GLYPH_HEIGHT = 5, 7
_ADVANCE = GLYPH_WIDTH + 1
_SIGNATURE = b"\x89PNG\r\n\x1a\n"

# Seven rows a sign, five bits a row, as two hexadecimal digits each.
_GLYPHS = {
    "0": "0e11111511110e",
    "1": "040c040404040e",
    "2": "0e11010204081f",
    "3": "1e01010e01011e",
    "4": "02060a121f0202",
    "5": "1f101e0101110e",
    "6": "0e10101e11110e",
    "7": "1f010202040404",
    "8": "0e11110e11110e",
    "9": "0e11110f01010e",
    "A": "0e11111f111111",
    "B": "1e11111e11111e",
    "C": "0e11101010110e",
    "D": "1e11111111111e",
    "E": "1f10101e10101f",
    "F": "1f10101e101010",
    "G": "0e11101711110e",
    "H": "1111111f111111",
    "I": "0e04040404040e",
    "J": "0702020202120c",
    "K": "11121418141211",
    "L": "1010101010101f",
    "M": "111b1515111111",
    "N": "11191915131311",
    "O": "0e11111111110e",
    "P": "1e11111e101010",
    "Q": "0e11111115120d",
    "R": "1e11111e141211",
    "S": "0f10100e01011e",
    "T": "1f040404040404",
    "U": "1111111111110e",
    "V": "111111110a0a04",
    "W": "11111115151b11",
    "X": "11110a040a1111",
    "Y": "11110a04040404",
    "Z": "1f01020408101f",
    ".": "00000000000c0c",
    ",": "000000000c0408",
    "-": "0000001f000000",
    "_": "0000000000001f",
    "/": "01010204081010",
    ":": "000c0c000c0c00",
    "%": "19190204081313",
    "(": "02040808080402",
    ")": "08040202020408",
    "+": "0004041f040400",
}
_UNKNOWN = "1f11111111111f"


class Picture:
    """``width`` x ``height`` pixels, white at first; x goes to the right, y down."""

    def __init__(self, width: int, height: int) -> None:
        self._pixels = np.full((height, width, 3), 255, dtype=np.uint8)

    def fill(self, left: float, top: float, right: float, bottom: float, colour: Colour) -> None:
        """Fill a rectangle, at least one pixel wide and high; what lies outside the picture is left out."""
        x, y = max(0, round(left)), max(0, round(top))
        self._pixels[y : max(round(bottom), y + 1), x : max(round(right), x + 1)] = colour

    def frame(self, left: float, top: float, right: float, bottom: float, colour: Colour) -> None:
        """Draw the edge of a rectangle."""
        self.fill(left, top, right, top, colour)
        self.fill(left, bottom, right, bottom, colour)
        self.fill(left, top, left, bottom, colour)
        self.fill(right, top, right, bottom + 1, colour)

    def write(self, text: str, x: float, y: float, *, size: int = 1, anchor: float = 0, upright: bool = False) -> None:
        """Write ``text`` in black capitals around (x, y), its middle in height: a pixel of a sign is ``size`` pixels.

        ``anchor`` is the part of its length that lies before the point; ``upright`` text runs from bottom to top.
        """
        ink = np.kron(_ink(text), np.ones((size, size), dtype=np.bool_))
        if upright:
            ink = np.rot90(ink)
        height, width = ink.shape
        left = round(x - (width / 2 if upright else anchor * width))
        top = round(y - ((1 - anchor) * height if upright else height / 2))
        rows, columns = np.nonzero(ink)
        rows, columns = rows + top, columns + left
        inside = (rows >= 0) & (columns >= 0) & (rows < self._pixels.shape[0]) & (columns < self._pixels.shape[1])
        self._pixels[rows[inside], columns[inside]] = 0

    def save(self, out: BinaryIO) -> None:
        """Write the picture as PNG; the same pixels give the same bytes."""
        height, width, _ = self._pixels.shape
        lines = np.zeros((height, 1 + 3 * width), dtype=np.uint8)  # each line begins with its filter: none
        lines[:, 1:] = self._pixels.reshape(height, 3 * width)
        out.write(_SIGNATURE)
        out.write(_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)))
        out.write(_chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)))
        out.write(_chunk(b"IEND", b""))


def text_width(text: str, size: int = 1) -> int:
    """Return the pixels that ``text`` is long."""
    return size * max(0, _ADVANCE * len(text) - 1)


def _ink(text: str) -> NDArray[np.bool_]:
    ink = np.zeros((GLYPH_HEIGHT, max(1, text_width(text))), dtype=np.bool_)
    for place, sign in enumerate(text.upper()):
        if sign != " ":
            rows = bytes.fromhex(_GLYPHS.get(sign, _UNKNOWN))
            for row, bits in enumerate(rows):
                for column in range(GLYPH_WIDTH):
                    ink[row, place * _ADVANCE + column] = bits >> (GLYPH_WIDTH - 1 - column) & 1
    return ink


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
