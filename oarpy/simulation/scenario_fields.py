"""Checked reading of JSON objects: every error names the key and the object it belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from oarpy.model.errors import UsageError

Scalar = str | int | float | bool | None
LARGEST: Final = 2**53
"""Largest number accepted, in either direction: whole numbers stay exact up to here."""
_REQUIRED: Final = object()


class Fields:
    """One JSON object; ``owner`` is how errors call it (``job 7``)."""

    def __init__(self, value: object, owner: str) -> None:
        if not isinstance(value, dict):
            raise UsageError(f"{owner}: {_shown(value)} is not an object", hint="write {...}")
        self._values: Mapping[str, object] = value
        self._owner = owner
        self._asked: set[str] = set()

    def named(self, owner: str) -> Fields:
        """Return the same object under a better name for errors."""
        return Fields(self._values, owner)

    def error(self, key: str, problem: str, hint: str = "") -> UsageError:
        """Return an error about ``key``."""
        return UsageError(f"{self._owner}: key '{key}': {problem}", hint=hint)

    def integer(self, key: str) -> int:
        """Return a whole number."""
        value = self._take(key, _REQUIRED)
        if not isinstance(value, int) or isinstance(value, bool) or abs(value) > LARGEST:
            raise self.error(key, f"{_shown(value)} is not a whole number")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """Return a number; without a default the key must be there. Whole floats become integers."""
        value = self._take(key, _REQUIRED if default is None else default)
        return self._number(key, value)

    def optional_number(self, key: str) -> float | None:
        """Return a number or None."""
        value = self._take(key, None)
        return None if value is None else self._number(key, value)

    def text(self, key: str, default: str | None = None) -> str:
        """Return a string; without a default the key must be there."""
        value = self._take(key, _REQUIRED if default is None else default)
        if not isinstance(value, str):
            raise self.error(key, f"{_shown(value)} is not a string")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of strings, empty by default."""
        values = self.items(key, required=False)
        for value in values:
            if not isinstance(value, str) or not value:
                raise self.error(key, f"{_shown(value)} is not a word")
        return tuple(value for value in values if isinstance(value, str))

    def items(self, key: str, *, required: bool) -> list[object]:
        """Return a list, empty when it may be left out and is."""
        value = self._take(key, _REQUIRED if required else [])
        if not isinstance(value, list):
            raise self.error(key, f"{_shown(value)} is not a list")
        return value

    def table(self, key: str) -> Mapping[str, object]:
        """Return an object; the key must be there."""
        value = self._take(key, _REQUIRED)
        if not isinstance(value, dict):
            raise self.error(key, f"{_shown(value)} is not an object", hint="write {...}")
        return value

    def has(self, key: str) -> bool:
        """Tell whether the key is there."""
        return key in self._values

    def rest(self) -> dict[str, Scalar]:
        """Return the keys not asked for yet, which must hold plain values."""
        found: dict[str, Scalar] = {}
        for key, value in self._values.items():
            if key in self._asked:
                continue
            if value is not None and not isinstance(value, (str, int, float, bool)):
                raise self.error(key, "a property is a string, a number, true, false or null")
            found[key] = value
        return found

    def end(self) -> None:
        """Refuse keys that were not asked for."""
        for key in self._values:
            if key not in self._asked:
                raise self.error(key, "unknown key", hint=f"known: {', '.join(sorted(self._asked))}")

    def _take(self, key: str, default: object) -> object:
        self._asked.add(key)
        value = self._values.get(key, default)
        if value is _REQUIRED:
            raise self.error(key, "missing")
        return value

    def _number(self, key: str, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= LARGEST:
            raise self.error(key, f"{_shown(value)} is not a number")
        return int(value) if isinstance(value, float) and value.is_integer() else value


def _shown(value: object) -> str:
    text = repr(value) if value is None or isinstance(value, (str, int, float, bool)) else type(value).__name__
    return text if len(text) <= 60 else text[:60] + "..."
