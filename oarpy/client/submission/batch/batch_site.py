"""The answers to rules about the cluster while the lines of a batch pass them, one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from oarpy.client.session import Session
from oarpy.client.submission.site import DatabaseSite
from oarpy.model.submission import Submission


@dataclass(frozen=True, slots=True)
class _Condition:
    """The condition on the jobs that are counted; None stands for any."""

    user: str | None
    queue: str | None
    project: str | None
    job_type: str | None
    states: tuple[str, ...] | None
    reservation: bool | None

    def meets(self, submission: Submission) -> bool:
        """Tell whether the jobs of a submission count, which are not stored yet."""
        return (
            self.user in (None, submission.user)
            and self.queue in (None, submission.queue)
            and self.project in (None, submission.project)
            and (self.job_type is None or self.job_type in submission.types)
            and (self.states is None or ("Hold" if submission.hold else "Waiting") in self.states)
            and self.reservation in (None, submission.reservation is not None)
        )


class BatchSite(DatabaseSite):
    """A site on which the lines before count as if they were stored: a limit on jobs holds within a batch."""

    def __init__(self, session: Session, now: datetime) -> None:
        super().__init__(session, now)
        self._before: list[Submission] = []
        self._stored: dict[_Condition, int] = {}

    def add(self, submission: Submission) -> None:
        """Count the jobs of a line from now on."""
        self._before.append(submission)

    def count_jobs(
        self,
        *,
        user: str | None = None,
        queue: str | None = None,
        project: str | None = None,
        job_type: str | None = None,
        states: Iterable[str] | None = None,
        reservation: bool | None = None,
    ) -> int:
        """Count the live jobs, including jobs of lines before, that satisfy every condition given."""
        words = None if states is None else tuple(states)
        condition = _Condition(user, queue, project, job_type, words, reservation)
        if condition not in self._stored:
            self._stored[condition] = super().count_jobs(
                user=user, queue=queue, project=project, job_type=job_type, states=words, reservation=reservation
            )
        return self._stored[condition] + sum(
            submission.array_size for submission in self._before if condition.meets(submission)
        )
