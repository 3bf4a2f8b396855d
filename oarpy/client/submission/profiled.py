"""``oarsub --bag --profile``: the jobs that take the profile of a bag, which is how long one task takes."""

from __future__ import annotations

from collections.abc import Sequence

from oarpy.client.submission.measuring import Measurer, Measuring, measuring_job, node_types
from oarpy.configuration import SchedulerSettings
from oarpy.model.submission import Submission
from oarpy.store.database import Connection

NAME = "profile"
"""The name of jobs that take a profile."""


def profiling_jobs(
    connection: Connection, settings: SchedulerSettings, submission: Submission, requested: Submission
) -> Sequence[Measuring]:
    """Return a job for each type of nodes that tasks may have; ``requested`` is the submission before the rules."""
    measurer = Measurer(NAME, submission.profile, (), settings.profile_limit)
    return [
        measuring_job(connection, measurer, requested, settings.node_type, kind)
        for kind in node_types(connection, settings.node_type, submission)
    ]
