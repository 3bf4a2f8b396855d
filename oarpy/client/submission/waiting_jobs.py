"""The limit of waiting jobs of a user (``submission.waiting_jobs_per_user``), without a count at each submission.

Ids are given in order. So a user has at most as many waiting jobs as at the last count, plus all jobs with a later id,
whoever's they are. Jobs are counted again only when that could be too many.
"""

from __future__ import annotations

from oarpy.client.session import Session
from oarpy.model.errors import AdmissionRefused
from oarpy.store.jobs import submissions

_MOST_KNOWN = 10_000
"""Users whose count is kept."""


class WaitingJobs:
    """The last counts of this process, by database and user: how many waited, and the highest id then."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, int, str], tuple[int, int]] = {}

    def check(self, session: Session, jobs: int, what: str = "an array") -> None:
        """Raise :class:`AdmissionRefused`, before jobs are stored at once, if ``jobs`` more would be too many."""
        if jobs > 1 and (limit := _limit(session)):
            if jobs > limit:
                raise AdmissionRefused(
                    f"{what} of {jobs} jobs, and at most {limit} jobs of a user may wait",
                    hint="submit smaller ones one after the other (submission.waiting_jobs_per_user)",
                )
            self._count(session, limit, jobs)

    def recheck(self, session: Session, newest: int, jobs: int) -> None:
        """After ``jobs`` were stored, the last one as ``newest``: raise :class:`AdmissionRefused` if they are too many.

        The caller's transaction is then undone.
        """
        limit = _limit(session)
        if not limit:
            return
        waited, id_then = self._known.get(_key(session), (limit, 0))
        if not id_then < newest <= id_then + limit - waited:
            self._count(session, limit, 0, stored=jobs)

    def _count(self, session: Session, limit: int, more: int, stored: int = 0) -> None:
        waiting, newest = submissions.count_waiting(session.connection, session.user, limit + 1)
        if waiting + more > limit:
            raise AdmissionRefused(
                f"{waiting - stored} jobs of yours wait already, {limit} may",
                hint="submit again when some have started (submission.waiting_jobs_per_user)",
            )
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        self._known[_key(session)] = waiting, newest


def _limit(session: Session) -> int:
    return 0 if session.is_admin else session.configuration.submission.waiting_jobs_per_user


def _key(session: Session) -> tuple[str, str, int, str]:
    info = session.connection.info
    return info.dbname, info.host, info.port, session.user


WAITING_JOBS = WaitingJobs()
"""The counts of this process."""
