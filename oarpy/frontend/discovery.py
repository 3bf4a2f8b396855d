"""Where the gateway is, found out without reading the whole configuration."""

from __future__ import annotations

import os

OWN_CONFIGURATION = "~/.config/oarpy/config.toml"
SYSTEM_CONFIGURATION = "/etc/oarpy/config.toml"

USUAL_SOCKET = "/run/oarpy/gateway.sock"
"""Where the gateway of a machine is when its configuration is none of the caller's business."""


def socket_path() -> str:
    """Return the path of the gateway's socket, ``""`` when there is to be none.

    ``OARPY_GATEWAY_SOCKET`` names it, else the configuration file that the command would read. The file of the whole
    machine may be missing, or hold a password that the caller may not read: then it is the usual place. A leading ``~``
    is the home of the caller.
    """
    return os.path.expanduser(_named())


def is_missed(path: str) -> bool:
    """Say whether a gateway should listen at ``path``: on a machine without one, the usual folder is missing."""
    return path != USUAL_SOCKET or os.path.isdir(os.path.dirname(path))


def _named() -> str:
    named = os.environ.get("OARPY_GATEWAY_SOCKET")
    if named is not None:
        return named
    own = os.environ.get("OARPY_CONFIG") or os.path.expanduser(OWN_CONFIGURATION)
    found = _configured(own)
    if found is None and not os.environ.get("OARPY_CONFIG"):
        found = _configured(SYSTEM_CONFIGURATION)
        return USUAL_SOCKET if found is None else found
    return found or ""


def _configured(path: str) -> str | None:
    """Return ``gateway.socket`` of a configuration file, ``""`` when it sets none, None when it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, ValueError):
        return None
    if "gateway" not in text:
        return ""
    simple = _simple(text)
    return _parsed(text) if simple is None else simple


def _simple(text: str) -> str | None:
    """Return the value where it is written plainly, a table, a key and a string; None asks for a real parser."""
    if '"""' in text or "'''" in text:
        return None
    table = ""
    for line in text.splitlines():
        line = line.strip()
        if line.startswith("["):
            table = line
        elif table == "[gateway]" and line.startswith("socket"):
            key, _, value = line.partition("=")
            value = value.strip()
            quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
            if key.strip() == "socket" and quoted and "\\" not in value and value[0] not in value[1:-1]:
                return value[1:-1]
            return None
    return None


def _parsed(text: str) -> str:
    # its import takes longer than all else that a command does here
    try:
        import tomllib
    except ImportError:  # an old Python on a node
        return ""
    try:
        section = tomllib.loads(text).get("gateway")
    except ValueError:
        return ""
    path = section.get("socket") if isinstance(section, dict) else None
    return path if isinstance(path, str) else ""
