"""The number of waiting jobs in PostgreSQL's statistics, by which it chooses how to run a statement.

PostgreSQL counts rows when enough have changed, at most once in its ``autovacuum_naptime``: a quarter of a minute, or a
minute. When thousands of jobs are submitted to an idle cluster, its statistics still say that no job waits. It then
compares all waiting jobs with all jobs that start, or get a prediction, although each could be looked up.
"""

from __future__ import annotations

from oarpy.store.database import Connection

_MANY = 500
"""Jobs up to which comparing all with all takes no time to speak of."""
_GROWTH = 2
"""When the number has grown by this factor since the last count, it is counted again."""
_COUNT = "ANALYZE (SKIP_LOCKED) jobs (state)"
"""Left out while somebody works on the table as a whole, as PostgreSQL does when it counts by itself."""


class StateStatistics:
    """Has PostgreSQL count the states of jobs when many more wait than when it last could have."""

    def __init__(self) -> None:
        self._waiting = 0
        """The fewest that have waited since the last count."""

    def forget(self) -> None:
        """Forget the last count: it may have been rolled back."""
        self._waiting = 0

    def renew(self, connection: Connection, waiting: int) -> None:
        """Have states counted if the statistics do not expect that many ``waiting`` jobs."""
        if waiting >= max(_MANY, _GROWTH * self._waiting):
            connection.execute(_COUNT)
            self._waiting = waiting
        self._waiting = min(self._waiting, waiting)
