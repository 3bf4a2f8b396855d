"""The past usage for orders by fair share and by several factors, from the accounting table and running jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from oarpy.configuration import Configuration, Priority
from oarpy.model.errors import UsageError
from oarpy.scheduler.order.queue_orders import looks_back
from oarpy.scheduler.order.usage_shares import NO_HISTORY, FactorRules, KarmaRules, Priorities, Usage
from oarpy.scheduler.resources.platform import Platform
from oarpy.store.accounting import KarmaRow, UsageRow, accounted, held, record_karma, usage_version
from oarpy.store.database import Connection
from oarpy.store.passes.project_use import project_shares
from oarpy.store.passes.snapshot_rows import QueueRow

REFRESH = 10
"""Seconds for which sums of the accounting table are kept, unless another program than accounting changes them."""


@dataclass(slots=True)
class _Sums:
    """Resource-seconds by user and by project."""

    used_by_user: defaultdict[str, float]
    asked_by_user: defaultdict[str, float]
    used_by_project: defaultdict[str, float]

    @classmethod
    def of(cls, rows: Iterable[UsageRow]) -> _Sums:
        sums = cls(defaultdict(float), defaultdict(float), defaultdict(float))
        for row in rows:
            sums.used_by_user[row.user] += row.used
            sums.asked_by_user[row.user] += row.asked
            sums.used_by_project[row.project] += row.used
        return sums


class PriorityHistory:
    """Reads the past when a queue's policy looks at it. Raises :class:`UsageError` for settings that cannot be read."""

    def __init__(self, configuration: Configuration) -> None:
        settings = configuration.priority
        self._karma, self._factors = karma_rules(settings), factor_rules(settings)
        self._accounted: list[UsageRow] = []
        self._read_at: int | None = None
        self._version = -1

    def read(
        self,
        connection: Connection,
        now: int,
        queues: Sequence[QueueRow],
        platform: Platform,
    ) -> Priorities:
        """Return the usage at ``now`` (epoch seconds): by ended jobs, and so far by jobs that hold resources.

        These are the rows that the view of karma sums up. Best-effort jobs do not count: they only use resources that
        no other job needs.
        """
        if not any(looks_back(queue.policy) for queue in queues):
            return NO_HISTORY
        expired = self._read_at is None or not 0 <= now - self._read_at < REFRESH
        version = usage_version(connection)
        if expired or version != self._version:
            self._accounted, self._read_at, self._version = accounted(connection), now, version
        sums = _Sums.of((*self._accounted, *held(connection)))
        tree = (
            project_shares(connection) if any(queue.policy.partition("/")[0] == "projects" for queue in queues) else {}
        )
        usage = Usage(dict(sums.used_by_user), dict(sums.asked_by_user), dict(sums.used_by_project), tree)
        return Priorities(usage, self._karma, self._factors, platform.default_type.bit_count())


def record_rules(connection: Connection, settings: Priority) -> None:
    """Record the window, coefficients and targets of the karma in the database, where all that reads it finds them."""
    rules = karma_rules(settings)
    record_karma(
        connection,
        KarmaRow(
            settings.window,
            rules.project,
            rules.user,
            rules.asked,
            rules.other_users,
            rules.other_projects,
            rules.user_targets,
            rules.project_targets,
        ),
    )


def karma_rules(settings: Priority) -> KarmaRules:
    """Read the coefficients and targets of the karma."""
    return KarmaRules(
        project=settings.karma_project,
        user=settings.karma_user,
        asked=settings.karma_asked,
        user_targets=_fractions("user_targets", settings.user_targets, 100),
        other_users=settings.other_users_target / 100,
        project_targets=_fractions("project_targets", settings.project_targets, 100),
        other_projects=settings.other_projects_target / 100,
    )


def factor_rules(settings: Priority) -> FactorRules:
    """Read the weights of the factors."""
    return FactorRules(
        age=settings.age_weight,
        queue=settings.queue_weight,
        work=settings.work_weight,
        size=settings.size_weight,
        karma=settings.karma_weight,
        qos=settings.qos_weight,
        nice=settings.nice_weight,
        full_age=settings.full_age,
        queues=_fractions("queue_factors", settings.queue_factors, 1),
        large_work=settings.large_work_first,
        large_size=settings.large_size_first,
    )


def _fractions(key: str, texts: Iterable[str], whole: float) -> dict[str, float]:
    """Read ``NAME=NUMBER`` with numbers from 0 to ``whole``."""
    fractions = {}
    for text in texts:
        name, _, value = text.rpartition("=")
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if not name.strip() or not 0 <= number <= whole:
            raise UsageError(
                f"priority.{key}: '{text[:60]}' is not NAME=NUMBER", hint=f"a name and a number from 0 to {whole:g}"
            )
        fractions[name.strip()] = number / whole
    return fractions
