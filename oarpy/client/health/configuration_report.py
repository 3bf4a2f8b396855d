"""The configuration as ``oarpy config show`` tells it: every value and where it came from, without passwords."""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

from oarpy.client.rendering import JsonValue
from oarpy.configuration import Configuration

_MASK = "***"
_URL_PASSWORD = re.compile(r"(://[^/?#@:]*:)[^/?#]*@")
_WORD_PASSWORD = re.compile(r"(\b(?:ssl)?password\s*=\s*)('(?:[^'\\]|\\.)*'|[^\s&]+)")


@dataclass(frozen=True, slots=True)
class Setting:
    """One value; ``origin`` is ``default``, a file's path or an environment variable's name."""

    key: str
    value: JsonValue
    origin: str

    def row(self) -> tuple[str, str, str]:
        """Return the cells of the setting in a table."""
        value = ",".join(map(str, self.value)) if isinstance(self.value, list) else self.value
        return self.key, str(value), self.origin

    def as_json(self) -> JsonValue:
        """Return the setting as JSON, its key left out."""
        return {"value": self.value, "origin": self.origin}


def settings(configuration: Configuration) -> tuple[Setting, ...]:
    """Return every setting, section by section."""
    listed = []
    for key, origin in configuration.origins.items():
        section, _, name = key.partition(".")
        value = configuration.site[name] if section == "site" else getattr(getattr(configuration, section), name)
        listed.append(Setting(key, _without_passwords(msgspec.to_builtins(value)), origin))
    return tuple(listed)


def _without_passwords(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return mask_password(value)
    if isinstance(value, list | tuple):
        return [_without_passwords(item) for item in value]
    return {key: _without_passwords(item) for key, item in value.items()} if isinstance(value, dict) else value


def mask_password(text: str) -> str:
    """Replace the password in a database URL or DSN.

    >>> mask_password("postgresql://ann:secret@db/oarpy")
    'postgresql://ann:***@db/oarpy'
    >>> mask_password("host=db password='s e c' user=ann")
    'host=db password=*** user=ann'
    """
    return _WORD_PASSWORD.sub(rf"\1{_MASK}", _URL_PASSWORD.sub(rf"\1{_MASK}@", text))
