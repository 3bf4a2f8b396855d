"""The configuration as ``oarpy config show`` tells it: every value and where it came from, without passwords."""

from __future__ import annotations

import re
from dataclasses import dataclass

from oarpy.client.rendering import JsonValue
from oarpy.configuration import Configuration

_MASK = "***"
_URL_PASSWORD = re.compile(r"(://[^/?#@:]*:)[^/?#]*@")
_WORD_PASSWORD = re.compile(r"(\b(?:ssl)?password\s*=\s*)('(?:[^'\\]|\\.)*'|[^\s&]+)")


@dataclass(frozen=True, slots=True)
class Setting:
    """One value; ``origin`` is ``default``, a file's path or an environment variable's name."""

    key: str
    value: str | int | float | bool | tuple[str, ...]
    origin: str

    def row(self) -> tuple[str, str, str]:
        """Return the cells of the setting in a table."""
        value = ",".join(self.value) if isinstance(self.value, tuple) else self.value
        return self.key, str(value), self.origin

    def as_json(self) -> JsonValue:
        """Return the setting as JSON, its key left out."""
        return {"value": list(self.value) if isinstance(self.value, tuple) else self.value, "origin": self.origin}


def settings(configuration: Configuration) -> tuple[Setting, ...]:
    """Return every setting, section by section."""
    found = []
    for key, origin in configuration.origins.items():
        section, _, name = key.partition(".")
        value = getattr(getattr(configuration, section), name)
        found.append(Setting(key, mask_password(value) if isinstance(value, str) else value, origin))
    return tuple(found)


def mask_password(text: str) -> str:
    """Replace the password in a database URL or DSN.

    >>> mask_password("postgresql://ann:secret@db/oarpy")
    'postgresql://ann:***@db/oarpy'
    >>> mask_password("host=db password='s e c' user=ann")
    'host=db password=*** user=ann'
    """
    return _WORD_PASSWORD.sub(rf"\1{_MASK}", _URL_PASSWORD.sub(rf"\1{_MASK}@", text))
