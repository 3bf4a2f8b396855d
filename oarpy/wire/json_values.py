"""JSON by the standard library's own C functions, without the modules around them.

``json`` imports regular expressions, which take longer to load than a command takes to be sent. Where these functions
are missing or unlike CPython's, ``json`` does the same.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class _Reading:
    """The attributes of the decoder that the scanner reads."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


def _own() -> tuple[Callable[[Any], str], Callable[[bytes], Any]]:
    """Return how a value is written and read; raise :class:`ImportError` or :class:`TypeError` where it cannot be."""
    from _json import encode_basestring_ascii, make_encoder, make_scanner

    encode = make_encoder(None, vars, encode_basestring_ascii, None, ": ", ", ", False, False, True)
    scan = make_scanner(_Reading)  # type: ignore[arg-type]
    if "".join(encode({"a": [1, None]}, 0)) != '{"a": [1, null]}' or scan('{"a": [1]}', 0) != ({"a": [1]}, 10):
        raise TypeError

    def write(value: Any) -> str:
        return "".join(encode(value, 0))

    def read(text: bytes) -> Any:
        letters = text.decode("utf-8", "surrogatepass").strip(" \t\n\r")
        try:
            value, end = scan(letters, 0)
        except StopIteration:
            raise ValueError("no value") from None
        if end != len(letters):
            raise ValueError(f"more than a value, from character {end} on")
        return value

    return write, read


def _usual() -> tuple[Callable[[Any], str], Callable[[bytes], Any]]:
    """Return the same of ``json``."""
    import json

    return lambda value: json.dumps(value, default=vars), json.loads


try:
    write_json, read_json = _own()
except (ImportError, TypeError):
    write_json, read_json = _usual()
