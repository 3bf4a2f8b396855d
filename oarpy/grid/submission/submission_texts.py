"""The output of ``oargridsub``. Programs read the line with the id; it is there when the job is accepted."""

from __future__ import annotations

from collections.abc import Sequence

from oarpy.client.rendering import JsonValue
from oarpy.grid.reports import grid_job_texts
from oarpy.grid.reports.grid_job_views import GridJobView

_PREFIX = "[OAR_GRIDSUB]"


def waiting_line(job: int) -> str:
    """Return the line that is printed while a job waits for the answers of named clusters."""
    return f"{_PREFIX} Grid job {job} waits for its clusters"


def text(jobs: Sequence[GridJobView], *, verbose: bool) -> str:
    """Return the lines for accepted jobs."""
    lines = [
        f"{_PREFIX} [{part.cluster}] Reservation success on {part.cluster} : batchId = {part.cluster_job}"
        for view in jobs
        for part in view.parts
        if part and part.cluster_job
    ]
    lines += [f"{_PREFIX} Grid reservation id = {view.job.id}" for view in jobs]
    if jobs[0].job.array_id is not None:
        lines.append(f"{_PREFIX} Grid array id = {jobs[0].job.array_id}")
    if jobs[0].bag is not None:
        lines += grid_job_texts.promise_lines(jobs[0].bag)
    if verbose:
        lines.append(f"{_PREFIX} oargridstat {jobs[0].job.id} shows it, oargriddel {jobs[0].job.id} deletes it")
    return "\n".join(lines) + "\n"


def record(jobs: Sequence[GridJobView]) -> dict[str, JsonValue]:
    """Return ``id`` (the first job), ``ids``, ``array_id``, and ``jobs`` as ``oargridstat -J`` has them.

    A bag has ``promise`` and ``deadline`` (epoch seconds), ``meets``, and ``warnings``.
    """
    first, bag = jobs[0].job, jobs[0].bag
    promised: dict[str, JsonValue] = (
        {}
        if bag is None
        else {
            "promise": bag.promise,
            "deadline": bag.deadline,
            "meets": bag.meets,
            "warnings": list(bag.missing),
        }
    )
    return {
        "id": first.id,
        "ids": [view.job.id for view in jobs],
        "array_id": first.array_id,
        **promised,
        "jobs": [grid_job_texts.record(view) for view in jobs],
    }
