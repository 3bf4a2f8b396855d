"""``oargridsh`` inside a job that is a part: hosts of its own as ``oarsh`` enters them, others by the broker's door."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from oarpy.client.caller import Streams
from oarpy.client.jobs import job_steps
from oarpy.client.jobs.job_steps import RunningJob
from oarpy.client.jobs.selection import one_job
from oarpy.client.session import Session
from oarpy.grid.calls.entry import EnterPart
from oarpy.grid.door import entering
from oarpy.grid.entering.passage import pass_through
from oarpy.model.errors import NotFound, OarpyError
from oarpy.store.grid import door_parts


@dataclass(frozen=True, slots=True)
class WayFromJob:
    """The way to a host from a job: inside the job, or through the door behind a command."""

    entry: EnterPart
    job: RunningJob
    door: tuple[str, ...] = ()

    def enter(self, streams: Streams) -> int:
        """Run the program, and return its exit status."""
        if self.door:
            return pass_through(self.door, self.entry, streams, _nothing)
        return entering.run(self.job, self.entry, streams, _nothing)


def way_from_job(
    session: Session, environment: Mapping[str, str], host: str, command: str, *, with_input: bool
) -> WayFromJob:
    """Return the way to a host from the job that the caller is in. Raises :class:`NotAllowed` unless it is theirs."""
    job = job_steps.running_job(session, one_job(session, job_steps.named_job(None, environment)))
    number = job.launch.spec.job
    known = door_parts.of_job(session.connection, number)
    entry = EnterPart(
        key=f"{number}-{os.getpid()}", part=known[1] if known else "none", host=host, command=command, input=with_input
    )
    try:
        node = job.node(host)
    except NotFound:
        if known is None:
            raise
    else:
        if known and door_parts.is_elsewhere_too(session.connection, number, node.name):
            raise OarpyError(
                f"'{host[:80]}' is also a host of the grid job on another cluster", hint="oarsh enters the one here"
            )
        return WayFromJob(entry, job)
    broker, _ = known
    door = session.configuration.door.broker_doors.get(broker, "")
    if not door:
        raise OarpyError(f"no way to broker '{broker}' is known here", hint="an admin sets door.broker_doors")
    return WayFromJob(entry, job, tuple(shlex.split(door)))


def _nothing() -> None:
    """Do nothing: no caller waits for a sign of the begin."""
