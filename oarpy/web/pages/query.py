"""The query of a page's address, read strictly: one line says which value is wrong."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from fastapi import Request

from oarpy.client.jobs.selection import parse_ids
from oarpy.client.past.periods import parse_date
from oarpy.model.errors import UsageError

_LONGEST = 200


def text(request: Request, name: str, default: str = "") -> str:
    """Return a short text."""
    value = request.query_params.get(name, default).strip()
    if len(value) > _LONGEST or not value.isprintable():
        raise UsageError(f"{name} is not a line of at most {_LONGEST} characters")
    return value


def choice(request: Request, name: str, choices: tuple[str, ...]) -> str:
    """Return one of ``choices``, the first if nothing is asked for."""
    value = text(request, name, choices[0])
    if value not in choices:
        raise UsageError(f"{name} '{value}' is not known", hint="one of " + ", ".join(choices))
    return value


def number(request: Request, name: str) -> int | None:
    """Return a whole number above 0."""
    value = text(request, name)
    return parse_ids([value], name)[0] if value else None


def day(request: Request, name: str) -> datetime | None:
    """Return the begin of a day, in the server's time zone, or a moment."""
    value = text(request, name)
    return parse_date(value) if value else None


def moment(request: Request, name: str) -> datetime | None:
    """Return a moment given in epoch seconds."""
    value = text(request, name)
    if not value:
        return None
    if not (value.isascii() and value.isdigit()) or not 0 < int(value[:12]) < 7_000_000_000 or len(value) > 10:
        raise UsageError(f"{name} '{value}' is not a moment", hint="whole seconds since 1970")
    return datetime.fromtimestamp(int(value), UTC)


def period(request: Request, longest: timedelta) -> tuple[datetime, datetime] | None:
    """Return ``begin`` and ``end``, None if the address has not both."""
    begin, end = moment(request, "begin"), moment(request, "end")
    if begin is None or end is None:
        return None
    if not timedelta() < end - begin <= longest:
        raise UsageError("the period is empty or too long", hint=f"at most {longest.days} days")
    return begin, end
