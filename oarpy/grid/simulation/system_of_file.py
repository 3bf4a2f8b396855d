"""Which system a file of ``oarpy grid simulate`` is about."""

from __future__ import annotations

import msgspec

from oarpy.model.typed_values import refuse

QUEUES = "queues"
"""The system of files that name none: clusters with queues, and jobs that a broker gives to one of them."""
_SYSTEMS = (QUEUES, "windows", "flexco", "offers", "bags")


class _SystemAlone(msgspec.Struct):
    system: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


def system_of(text: str, default: str = QUEUES) -> str:
    """Return the system of a file; raise :class:`UsageError` for an unknown one. ``default`` is that of other files."""
    try:
        raw = msgspec.json.decode(text, type=_SystemAlone).system
        name = default if raw is msgspec.UNSET else msgspec.json.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return default
    if name not in _SYSTEMS and name != default:
        refuse("file", "system", name, "is no system", f"known: {', '.join(_SYSTEMS)}")
    assert isinstance(name, str)
    return name
