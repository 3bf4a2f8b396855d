"""The clusters that a broker uses: their list, the ways to enter them, and which of them take new jobs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite

from oarpy.client.rendering import Column, JsonValue, Table, local_date, one_line
from oarpy.client.session import Session
from oarpy.model.errors import NotFound, OarpyError, UsageError
from oarpy.model.submission_checks import check_text, short
from oarpy.store.grid import clusters
from oarpy.store.grid.clusters import GridClusterRow

_NAME = re.compile(r"[A-Za-z0-9_]{1,64}", re.ASCII)
_USER = re.compile(r"[^\s,:]{1,64}")
_FASTEST = 1e6
_LONGEST_DOOR = 4096


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """A cluster as an admin describes it; ``door`` has the words of the command that leads to it.

    Without ``speed``, the speed that the cluster itself states counts. Jobs of ``users`` may go there: empty means jobs
    of admins alone, None means jobs of everybody.
    """

    name: str
    kind: str
    door: tuple[str, ...]
    speed: float | None = None
    dedicated: bool = False
    place: int = 0
    users: tuple[str, ...] | None = None


def read_settings(
    name: str,
    door: str | None,
    slurm: str | None,
    speed: float | None,
    place: int,
    *,
    dedicated: bool,
    users: str | None = None,
) -> ClusterSettings:
    """Return the typed settings; raise :class:`UsageError` for settings that no cluster can have."""
    if not _NAME.fullmatch(name):
        hint = "letters, digits and '_', at most 64: known clients read nothing else"
        raise UsageError(f"'{short(name)}' is no name of a cluster", hint=hint)
    if (door is None) == (slurm is None):
        raise UsageError("either --door or --slurm", hint='--door "ssh -i KEY oargrid@host"')
    kind, command = ("oarpy", door) if slurm is None else ("slurm", slurm)
    if users is not None and kind != "slurm":
        raise UsageError("--users with --door", hint="grants of that cluster say who may use it: oargridctl grant")
    words = _words(command or "")
    if speed is not None and not (isfinite(speed) and 1 / _FASTEST <= speed <= _FASTEST):
        raise UsageError(f"speed {speed:g}", hint="from a millionth to a million; without --speed, as the cluster says")
    if not 0 <= place < 2**31:
        raise UsageError(f"place {place}", hint="a whole number from 0 on; clusters of equal places go by name")
    lent = _users(users) if kind == "slurm" else None
    return ClusterSettings(name, kind, words, speed, dedicated, place, lent)


def _users(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return ()
    if text.strip() == "all":
        return None
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if not _USER.fullmatch(name) or not name.isprintable():
            raise UsageError(f"--users '{short(text)}' has '{short(name)}'", hint="ann,bob or all")
    return tuple(dict.fromkeys(names))


def _words(command: str) -> tuple[str, ...]:
    check_text("the command of a cluster", command, _LONGEST_DOOR)
    try:
        words = tuple(shlex.split(command))
    except ValueError:
        raise UsageError(f"'{short(command)}' has quotes without an end", hint="as a shell reads it") from None
    if not words:
        raise UsageError("an empty command", hint='for example --door "ssh -i KEY oargrid@host"')
    return words


def add(session: Session, settings: ClusterSettings) -> tuple[str, ...] | None:
    """Add and enable a cluster, or change and enable the cluster that has this name already. Admins only.

    Return the users whose jobs may go there; None for everybody.
    """
    session.require_admin("add clusters")
    users = _admins(session) if settings.users == () else settings.users
    clusters.put(
        session.connection,
        settings.name,
        settings.kind,
        settings.door,
        speed=settings.speed,
        dedicated=settings.dedicated,
        place=settings.place,
        users=users,
    )
    return users


def _admins(session: Session) -> tuple[str, ...]:
    """Return the present admins whose names are known."""
    return tuple(sorted({"root", session.user, *session.configuration.submission.admins}))


def enable(session: Session, names: Sequence[str], *, active: bool) -> None:
    """Open clusters to new jobs, or close them; all or none. Admins only. Raises :class:`NotFound`."""
    session.require_admin("enable and disable clusters")
    with session.connection.transaction():
        for name in dict.fromkeys(names):
            if not clusters.set_active(session.connection, name, active=active):
                raise _unknown(name)


def remove(session: Session, names: Sequence[str]) -> None:
    """Remove clusters that never got a job; all or none. Admins only. Raises :class:`NotFound`."""
    session.require_admin("remove clusters")
    with session.connection.transaction():
        known = {cluster.name for cluster in clusters.every(session.connection)}
        for name in dict.fromkeys(names):
            if name not in known:
                raise _unknown(name)
            if not clusters.remove(session.connection, name):
                hint = f"oargridctl clusters disable {name} keeps new ones away"
                raise OarpyError(f"cluster '{name}' has had grid jobs, which stay in the records", hint=hint)


def _unknown(name: str) -> NotFound:
    return NotFound(f"no cluster '{short(name)}'", hint="oargridctl clusters list has them")


def table(rows: Iterable[GridClusterRow], *, with_doors: bool) -> Table:
    """Return clusters for people; the commands that lead to them are for admins."""
    titles = ("Cluster", "Runs", "State", "Procs", "Speed", "Dedicated", "Users", "Heard", "Message")
    columns = [Column(title) for title in (*titles, *(["Door"] if with_doors else []))]
    return Table(tuple(columns), tuple(_cells(row, with_door=with_doors) for row in rows))


def record(row: GridClusterRow, *, with_door: bool) -> dict[str, JsonValue]:
    """Return a cluster for programs; dates are epoch seconds, ``clock_offset`` seconds."""
    shown: dict[str, JsonValue] = {
        "name": row.name,
        "kind": row.kind,
        "active": row.active,
        "place": row.place,
        "speed": row.speed,
        "told_speed": row.told_speed,
        "dedicated": row.dedicated,
        "users": None if row.users is None else sorted(row.users),
        "procs": row.procs,
        "abilities": sorted(row.abilities),
        "clock_offset": row.clock_offset,
        "heard_at": row.heard_at,
        "silent_since": row.silent_since,
        "message": row.message,
    }
    return shown | {"door": list(row.door)} if with_door else shown


def _cells(row: GridClusterRow, *, with_door: bool) -> tuple[str, ...]:
    state = "silent" if row.silent_since is not None else "enabled" if row.active else "disabled"
    procs = "?" if row.procs is None else str(row.procs)
    heard = local_date(row.heard_at) or "never"
    cells = [row.name, row.kind, state, procs, f"{row.speed:g}", "yes" if row.dedicated else "no", _who(row), heard]
    cells.append(one_line(row.message))
    return (*cells, *([one_line(shlex.join(row.door))] if with_door else []))


def _who(row: GridClusterRow) -> str:
    if row.users is None:
        return "as granted" if row.kind == "oarpy" else "all"
    return ",".join(sorted(row.users)) or "nobody"
