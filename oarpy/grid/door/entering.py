"""Entering a part of a broker: runs a program in the part's job, on one of its hosts, as the user of its grant."""

from __future__ import annotations

from collections.abc import Callable

from oarpy.client.caller import Streams
from oarpy.client.jobs import job_steps
from oarpy.client.jobs.job_steps import RunningJob
from oarpy.grid.calls.entry import EnterPart
from oarpy.grid.calls.table import CallRefused
from oarpy.grid.door import grants
from oarpy.grid.door.call_context import CallContext
from oarpy.store.grid import door_parts


def job_to_enter(context: CallContext, entry: EnterPart) -> RunningJob:
    """Return the job of a part, which runs. Raises :class:`NotAllowed` unless its user lets the broker act here."""
    with grants.acting(context, entry.user) as (_, session):
        with context.connection.transaction():
            row = door_parts.part(context.connection, context.broker, entry.part)
        if row is None or row.state != "Committed":
            raise CallRefused(f"there is no part '{entry.part}' here", hint="it is over")
        return job_steps.running_job(session, row.job)


def run(job: RunningJob, entry: EnterPart, streams: Streams, began: Callable[[], None]) -> int:
    """Run the program of an entry inside a job, and return its exit status; ``began`` is called when it runs."""
    node = job.node(entry.host)
    with job_steps.steps_of(job) as steps:
        step = steps.start(node, job_steps.step_spec(job, node, entry.command))
        return job_steps.exit_status(job_steps.relay(steps, step, streams, with_input=entry.input, started=began))
