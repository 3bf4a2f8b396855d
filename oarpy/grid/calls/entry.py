"""Entering a part: the line with which a program is started on one of its hosts, after which streams are carried.

::

    oargridsh, in a job  --line-->  door of the broker  --line-->  door of the other cluster  -->  host of the part
                         <- reply --                    <- reply --

The first side names its own part. The broker names the part to be entered and the user. After the reply, the line
carries the program's input, output, errors and exit status.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from oarpy.grid.calls.parts import Line, Name, Text
from oarpy.model.errors import UsageError


class EnterPart(Struct, frozen=True, tag_field="call", tag="enter", forbid_unknown_fields=True, kw_only=True):
    """Run ``command`` by the user's shell on ``host``; empty: that shell. ``input``: whether it has any.

    ``part`` is the part to be entered. Without ``user``, it is the part that asks.
    """

    key: Name
    part: Name
    host: Annotated[str, Meta(min_length=1, max_length=256, pattern=r"\A[!-~]+\Z")]
    command: Text = ""
    user: Line = ""
    input: bool = True


class _Kind(Struct):
    call: str = ""


_KINDS = msgspec.json.Decoder(_Kind)
_ENTRIES = msgspec.json.Decoder(EnterPart)


def is_entry(line: bytes) -> bool:
    """Tell whether a line is an entry, well-formed or not."""
    try:
        return _KINDS.decode(line).call == "enter"
    except (ValueError, RecursionError):
        return False


def read_entry(line: bytes) -> EnterPart:
    """Read a line. Raises :class:`UsageError` for a line that is not exactly an entry."""
    try:
        return _ENTRIES.decode(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"no entry: {str(error)[:300]}", hint="docs/guides/grid-door.md has the fields") from None
