"""The broker's side of ``oargridsh``: the owner of the job, the part that has the host, and the door to it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

import msgspec

from oarpy.client.caller import Caller, Streams
from oarpy.client.rendering import one_line
from oarpy.client.session import Session, user_name
from oarpy.configuration import Configuration
from oarpy.grid.calls.entry import EnterPart, read_entry
from oarpy.grid.calls.json_lines import DoorError, DoorReply, encode, key_of
from oarpy.grid.door.lines import lines_of
from oarpy.grid.entering.passage import pass_through
from oarpy.model.errors import NotAllowed, NotFound, OarpyError
from oarpy.model.states import FINAL_GRID_JOBS, GridPartState
from oarpy.store.database import Connection, connect, database_dsn, reachable
from oarpy.store.grid import broker_jobs, broker_parts, clusters
from oarpy.store.grid.broker_jobs import GridJobRow

_LONGEST = 1 << 20
_OVER = (GridPartState.ENDED, GridPartState.GONE, GridPartState.ABORTING, GridPartState.DELETING)


@dataclass(frozen=True, slots=True)
class WayByBroker:
    """The part that is entered, and the command of its cluster's door."""

    entry: EnterPart
    door: tuple[str, ...]

    def enter(self, streams: Streams, began: Callable[[], None] = lambda: None) -> int:
        """Run the program, and return its exit status."""
        return pass_through(self.door, self.entry, streams, began)


def way_of_user(session: Session, number: int, host: str, command: str, *, with_input: bool) -> WayByBroker:
    """Return the way to a host of a grid job. Only its owner may enter it, not even an admin."""
    job = next(iter(broker_jobs.read(session.connection, [number])), None)
    if job is None:
        raise NotFound(f"no grid job {number}", hint="oargridstat lists yours")
    if job.user != session.user:
        raise NotAllowed(
            f"grid job {number} belongs to '{job.user}', not to '{session.user}'", hint="its owner enters it"
        )
    call = EnterPart(key=f"{number}-{os.getpid()}", part="none", host=host, command=command, input=with_input)
    return _way(session.connection, job, call)


def let_pass(caller: Caller, cluster: str) -> int:
    """Answer the entry of a cluster at the door of the broker, and carry its streams; return the exit status.

    Raises :class:`NotAllowed` for a caller who is not the cluster's account.
    """
    configuration = caller.configuration()
    _require_account(configuration, cluster, caller)
    with caller.attached() as streams:
        streams.begin_input(terminal=False)
        line = next(lines_of(streams, _LONGEST, configuration.door.idle_limit), None)
        try:
            entry = read_entry(line or b"")
            timeout = configuration.database.connect_timeout
            with (
                reachable(),
                closing(connect(database_dsn(configuration), "oargriddoor", timeout=timeout)) as connection,
            ):
                way = way_of_cluster(connection, cluster, entry)
            began = encode(DoorReply(entry.key, answer=msgspec.Raw(b"null"))) + b"\n"
            return way.enter(streams, lambda: streams.send(1, began))
        except OarpyError as error:
            refusal = DoorError(error.code, one_line(error.message)[:400], one_line(error.hint), error.exit_status)
            streams.send(1, encode(DoorReply(key_of(line or b""), error=refusal)) + b"\n")
            return error.exit_status


def _require_account(configuration: Configuration, cluster: str, caller: Caller) -> None:
    account, user = configuration.grid.accounts.get(cluster), user_name(caller.uid)
    if account is None or account != user or not caller.administers:
        raise NotAllowed(f"'{user}' is not the account of a cluster '{cluster[:64]}'", hint="grid.accounts names them")


def way_of_cluster(connection: Connection, cluster: str, entry: EnterPart) -> WayByBroker:
    """Return the way from a part on a cluster. A cluster may only name its own parts."""
    part = next(iter(broker_parts.by_name(connection, [entry.part])), None)
    if part is None or part.cluster != cluster or part.state in _OVER:
        raise NotFound(f"cluster '{cluster}' has no part '{entry.part}'", hint="it is over")
    (job,) = broker_jobs.read(connection, [part.job])
    return _way(connection, job, entry)


def _way(connection: Connection, job: GridJobRow, entry: EnterPart) -> WayByBroker:
    """Return the way to a host of a job that goes on."""
    if job.state in FINAL_GRID_JOBS:
        raise NotFound(f"grid job {job.id} is over ({job.state.value})", hint="nothing of it can be entered")
    parts = [row for row in broker_parts.last_of_jobs(connection, [job.id]) if row.state not in _OVER]
    having = [row for row in parts if entry.host in row.hosts]
    if not having:
        hosts = ", ".join(dict.fromkeys(host for row in parts for host in row.hosts)) or "none is known yet"
        raise NotFound(f"'{entry.host[:80]}' is no host of grid job {job.id}", hint=f"its hosts: {hosts[:300]}")
    if len(having) > 1:
        where = ", ".join(row.cluster for row in having)
        raise OarpyError(
            f"'{entry.host}' is a host of grid job {job.id} on several clusters: {where}",
            hint="oarsh enters them, each on its own cluster",
        )
    (part,) = having
    row = next((row for row in clusters.every(connection) if row.name == part.cluster), None)
    if row is None or row.kind != "oarpy":
        raise OarpyError(f"parts on cluster '{part.cluster}' cannot be entered", hint="it has no door")
    return WayByBroker(msgspec.structs.replace(entry, part=part.name, user=job.user), tuple(row.door))
