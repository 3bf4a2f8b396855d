"""Reads rows of the database into the scheduler's :class:`~oarpy.scheduler.snapshot.Snapshot`, without decisions.

::

    version of the platform  --changed--> platform, compiled requests, resources that conditions admit --.
    versions of waiting rows --changed--> those rows --> waiting jobs -----------------------------------+--> Snapshot
    submissions of those rows -new------> their requests ------------------------------------------------+
    every time: who holds what, reservations, dependencies, queues, quotas, use of the past -------------'

An unchanged job is the same object from pass to pass. All caches are dropped with the connection, because versions
belong to one server.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

import psycopg
from msgspec import structs

from oarpy import slices
from oarpy.admission.filters.filters import compile_filter
from oarpy.admission.filters.parts import without_usual
from oarpy.cluster_state.existing_resources import declared_consumables
from oarpy.cluster_state.outages import available_until, ends_of_availability, maintenance_outages
from oarpy.cluster_state.pass_limits import PassLimits
from oarpy.cluster_state.priority_history import PriorityHistory
from oarpy.cluster_state.project_budgets import ProjectBudgets
from oarpy.cluster_state.quota_rules import QuotaRules
from oarpy.cluster_state.set_aside import made_of, unplaced
from oarpy.cluster_state.state_part import StatePart
from oarpy.cluster_state.stored_jobs import StoredHolder, StoredJob
from oarpy.cluster_state.waiting_rows import WaitingRows
from oarpy.cluster_state.window_line import WindowLine
from oarpy.configuration import Configuration
from oarpy.model.dates import NO_DATES, JobDates
from oarpy.model.dependency import Dependency
from oarpy.model.errors import OarpyError, UsageError
from oarpy.model.job_types import BESTEFFORT, read_types
from oarpy.model.reasons import Reason, Why, local_instant
from oarpy.model.request import Consumption, Group, Level
from oarpy.model.setting_values import read_keep_alive
from oarpy.model.states import FINAL_STATES, JobState
from oarpy.scheduler.resources.consumables import Consumable
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.resources.platform import ASLEEP, Platform, Resource
from oarpy.scheduler.rules.energy import idle_nodes
from oarpy.scheduler.rules.reservations import OVERRUN, promised
from oarpy.scheduler.snapshot import (
    Alternative,
    HoldingJob,
    Outage,
    Power,
    PowerRules,
    Queue,
    Reservation,
    Rules,
    Snapshot,
    WaitingJob,
    WalltimeRequest,
    conditions,
    singleton_rules,
)
from oarpy.store.database import Connection
from oarpy.store.jobs import walltime_changes
from oarpy.store.passes import snapshot_rows
from oarpy.store.platform import consumables, exclusive_levels, power, properties
from oarpy.store.platform.consumables import HeldAmounts
from oarpy.store.refusals import refusals_of

LAUNCH = 5
"""Seconds that a launch may take and the job still counts as begun when a pass of this process started it."""
_NO_AMOUNTS = HeldAmounts()
_MOST_CONDITIONS = 1000
"""Conditions and compiled requests that no waiting job uses are forgotten when there are more than this."""


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """The alternatives of a submission and their ids in the database, in order."""

    alternatives: tuple[Alternative, ...]
    moldables: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """One snapshot, with the ids in the database that are needed to write the decisions."""

    snapshot: Snapshot
    requests: dict[int, ReadRequest]
    """Alternatives by job."""
    withheld: Mapping[int, str] = field(default_factory=dict)
    """Why jobs are not tried now: the database refused them, or nothing could be decided about them."""
    parts: tuple[StatePart, ...] = ()
    """The parts of slices that have read their share; they write the decisions about it."""
    windows: WindowLine | None = None
    """The windows of reservations, and their state in the last pass."""


@dataclass(frozen=True, slots=True)
class _Made:
    """A job and the values it was made of."""

    source: tuple[StoredJob, tuple[Dependency, ...], bool, str]
    job: WaitingJob


class SnapshotReader:
    """Feeds scheduling passes; one instance lives as long as its process."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._order_checked = False
        self._rules = rules_of(configuration)
        self._also = {text for text, _ in self._rules.power.keep if text} if self._rules.power else set()
        self._connection: Connection | None = None
        self._version = -1
        self._asleep = 0
        self._gated = False
        self._parts: tuple[StatePart, ...] = tuple(make(configuration) for make in slices.things(slices.STATE_PARTS))
        self._there: Sequence[bool] = [False] * len(self._parts)
        """Whether each part has rows to read."""
        self._ranks: Mapping[int, float] = {}
        self._unasked: frozenset[int] = frozenset()
        self._windows = WindowLine(configuration.scheduler)
        self._unchanged_until = float("inf")
        self._outages: tuple[Outage, ...] = ()
        self._platform = Platform.build([], [])
        self._kinds: dict[str, str] = {}
        self._exclusive_levels: tuple[str, ...] = ()
        """The exclusive levels of the settings that exist, by any of their names."""
        self._consumables: tuple[Consumable, ...] = ()
        self._filters: dict[str, int] = {}
        self._errors: dict[str, str] = {}
        self._returning: dict[str, int] = {}
        self._shown: dict[str, str] = {}
        self._any_away = False
        self._requests: dict[int, ReadRequest] = {}
        self._rows = WaitingRows()
        self._jobs: dict[int, _Made] = {}
        self._bits: dict[int, tuple[tuple[int, ...], int]] = {}
        self._begun: dict[int, int] = {}
        self._history = PriorityHistory(configuration)
        self._quotas = QuotaRules(configuration)
        self._projects = ProjectBudgets(configuration)
        self._limits = PassLimits(configuration.scheduler)
        self.matchers = Matchers(self._platform)
        """Compiled requests of the platform that was read last."""

    def platform(self, connection: Connection, now: int) -> Platform:
        """Return the resources as they are now. The caller opened a transaction."""
        self._forget_others(connection)
        self._refresh_platform(connection, now)
        return self._platform

    @property
    def consumables(self) -> tuple[Consumable, ...]:
        """The consumables of the platform read last."""
        return self._consumables

    def read(
        self,
        connection: Connection,
        now: int,
        *,
        only_places: bool = False,
        without: Sequence[tuple[int, int]] = (),
    ) -> Reading:
        """Return the input of a pass at ``now`` (epoch seconds). The caller opened a transaction.

        With ``only_places`` facts that do not matter for places are left out: walltimes, amended reservations, resting
        nodes. ``without`` are runs of ids of waiting jobs that are left out, too: then no job has a turn.
        """
        self._forget_others(connection)
        # before it is asked whether slices have rows: a job that comes in between has not its own without them
        rows = self._rows.read(connection, without)
        self._refresh_platform(connection, now)
        self._read_parts(connection)
        withheld = refusals_of(connection).withheld()
        reserved = snapshot_rows.reserved(connection)
        self._fetch_requests(connection, {row.submission for row in rows})
        anteriors = _anteriors(connection, [row.id for row in rows])
        queues = snapshot_rows.queues(connection)
        stopped = frozenset(queue.name for queue in queues if not queue.active)
        reservations, broken = self._reservations(reserved, rows, anteriors.of)
        accepted = {reservation.job.id for reservation in reservations}
        waiting = [row for row in rows if row.id not in accepted] if accepted else rows
        aside = {**withheld, **broken} if broken else withheld
        jobs = self._waiting_jobs(waiting, anteriors.of, stopped, aside, some=bool(without))
        texts = conditions((*jobs, *(reservation.job for reservation in reservations)))
        self._resolve_all(connection, texts if only_places else texts | self._also)
        held = self._held(connection, accepted)
        promises = _promises(reservations, _gone(reserved, rows), now)
        longest = max((way.walltime for job in jobs for way in job.alternatives), default=0)
        quotas, horizon = self._quotas.read(connection, now, longest)
        snapshot = Snapshot(
            now=now,
            platform=self._platform,
            queues=tuple(map(_queue, queues)),
            quotas=(*quotas, *singleton_rules(jobs)),
            quota_horizon=horizon,
            outages=self._outages,
            holding=(*self._holding_jobs(held, self._amounts(connection), now), *promises),
            waiting=jobs,
            security_time=self._configuration.scheduler.security_time,
            policy=self._configuration.scheduler.policy,
            heads=bool(without),
            filters=self._filters,
            filter_errors=self._errors,
            returning=self._returning,
            shown=self._shown,
            outcomes=anteriors.outcomes,
            spans=anteriors.spans,
            priorities=self._history.read(connection, now, queues, self._platform),
            besteffort_minimum_life=self._configuration.scheduler.besteffort_minimum_life,
            consumables=self._consumables,
            ration=self._limits.current(jobs) if only_places or without else self._limits.next(jobs),
            show_instant=local_instant,
            rules=self._rules,
            reservations=reservations,
            asleep=self._asleep,
            exclusive_levels=self._exclusive_levels,
        )
        snapshot = replace(snapshot, windows=self._windows.read(connection, snapshot))
        snapshot = self._with_parts(connection, snapshot, withheld)
        if not only_places:
            snapshot = self._with_the_rest(connection, snapshot)
        return Reading(snapshot, self._requests_of(rows), withheld, self._parts, self._windows)

    def _requests_of(self, rows: Iterable[StoredJob]) -> dict[int, ReadRequest]:
        return {row.id: self._requests[row.submission] for row in rows}

    def _held(self, connection: Connection, accepted: Collection[int]) -> list[StoredHolder]:
        """Return the jobs that hold resources, without parts of running jobs that others may take."""
        for part, any_there in zip(self._parts, self._there, strict=True):
            part.read_held(connection, any_there=any_there)
        # a job evicted for a broker's part does not keep that part waiting, as best-effort jobs do not
        rows = [
            structs.replace(row, types=(*row.types, BESTEFFORT)) if row.evicted else row
            for row in _held(connection, accepted)
        ]
        if self._exclusive_levels:
            levels = exclusive_levels.held(connection)
            rows = [structs.replace(row, levels=levels[row.id]) if row.id in levels else row for row in rows]
        if self._gated:
            ends = snapshot_rows.gated_ends(connection)
            rows = [structs.replace(row, walltime=ends[row.id] - row.start) if row.id in ends else row for row in rows]
        for part in self._parts:
            rows = part.left_alone(rows)
        return rows

    def _amounts(self, connection: Connection) -> dict[int, HeldAmounts]:
        """Return what jobs hold of consumables, where there are any."""
        freed = self._configuration.scheduler.suspended_consumables
        return consumables.held(connection, freed) if self._consumables else {}

    def _read_parts(self, connection: Connection) -> None:
        """Read the facts about jobs that slices add before the jobs are made."""
        for part, any_there in zip(self._parts, self._there, strict=True):
            part.read(connection, any_there=any_there)
        self._ranks = {job: rank for part in self._parts for job, rank in part.ranks.items()}
        self._unasked = frozenset().union(*(part.unasked for part in self._parts))

    def _with_parts(self, connection: Connection, snapshot: Snapshot, withheld: Collection[int]) -> Snapshot:
        """Return ``snapshot`` with projects, the waiting and holding parts of slices, and their promises."""
        snapshot = replace(snapshot, projects=self._projects.read(connection, snapshot.now))
        for part in self._parts:
            waiting, held = part.jobs(snapshot, withheld)
            if waiting or held:
                self.resolve(connection, conditions(waiting))
                snapshot = replace(snapshot, parts=(*snapshot.parts, *waiting), holding=(*snapshot.holding, *held))
            if (promising := part.promising(snapshot)) is not None:
                snapshot = replace(snapshot, promising=promising)
        return snapshot

    def _with_the_rest(self, connection: Connection, snapshot: Snapshot) -> Snapshot:
        """Return ``snapshot`` with the step that places its jobs, and with requests for running jobs and nodes.

        These are walltime requests and power states of nodes; reservations to amend are added, too.
        """
        steps = (part.step(connection, snapshot) for part in self._parts)
        if (step := next((step for step in steps if step is not None), None)) is not None:
            snapshot = replace(snapshot, step=step)
        fitting = (part.fitting(snapshot) for part in self._parts)
        if (fits := next((fits for fits in fitting if fits is not None), None)) is not None:
            snapshot = replace(snapshot, fitting=fits)
        if any(job.reservation is not None for job in snapshot.waiting):
            # after the jobs: an amended reservation is committed with the job that replaces it
            snapshot = replace(snapshot, amending=snapshot_rows.amending(connection))
        if rows := walltime_changes.pending(connection):
            snapshot = replace(snapshot, walltime_requests=tuple(map(_walltime_request, rows)))
        if self._rules.power is None:
            return snapshot
        orders = {row.node: _power(row) for row in power.asked(connection)}
        rested = power.rested(connection, idle_nodes(snapshot), self._configuration.energy.idle_time)
        return replace(snapshot, power=orders, rested=frozenset(rested))

    def begin_passes(self) -> None:
        """Note that the next reading is for the first pass of a server, which may have been away."""
        self._windows.begin()

    def note_begun(self, jobs: Iterable[int], now: int) -> None:
        """Note that a pass at ``now`` started these jobs: they hold from then on, however long their launch takes.

        Otherwise their ends, and all places planned behind them, would move once they run.
        """
        self._begun.update(dict.fromkeys(jobs, now))

    def forget_seen(self) -> None:
        """Note that the last pass has written nothing."""
        for part in self._parts:
            part.forget()

    def _forget_others(self, connection: Connection) -> None:
        """Drop the data read over another connection: versions belong to one server, and a failover changes it."""
        if connection is not self._connection:
            self._connection, self._version = connection, -1
            self._requests, self._rows, self._jobs = {}, WaitingRows(), {}

    def _refresh_platform(self, connection: Connection, now: int) -> None:
        """Read the platform again if its version moved, or one of its dates has passed.

        This drops all values compiled for the old platform.
        """
        version, self._gated, self._there = snapshot_rows.site(connection, [part.THERE for part in self._parts])
        if version == self._version and now < self._unchanged_until:
            return
        self._kinds = snapshot_rows.property_kinds(connection)
        self._consumables = declared_consumables(connection)
        rows, order = self._resources(connection, now)
        self._platform = Platform.build(
            rows, hierarchy=[name for name in self._kinds if name != "resource_id"], order=order
        )
        self._asleep = self._platform.bits_of(row.id for row in rows if row.properties.get(ASLEEP))
        aliases, named = self._platform.aliases, self._configuration.scheduler.exclusive_levels
        self._exclusive_levels = tuple(name for name in named if aliases.get(name, name) in self._kinds)
        outages, over = maintenance_outages(connection, self._platform, now)
        self._outages = (*outages, *ends_of_availability(rows, self._platform, now))
        self._unchanged_until = min(self._unchanged_until, over)
        self._filters, self._errors, self._returning, self._shown = {}, {}, {}, {}
        self._any_away = any(row.properties.get("drain") or row.state in ("Absent", "Suspected") for row in rows)
        self._bits = {}
        self.matchers = Matchers(self._platform)
        self._version = version

    def _resources(self, connection: Connection, now: int) -> tuple[list[Resource], tuple[str, ...]]:
        """Return the resources and their order. A resource whose date has passed counts as Absent.

        With energy saving, resources that can be woken count as Alive and come after all others.
        """
        self._check_order(connection)
        saving = self._configuration.energy.active
        self._unchanged_until = math.inf
        resources = []
        for row in (Resource(*values) for values in snapshot_rows.platform(connection)):
            until = available_until(row)
            if until is not None and until > now:
                self._unchanged_until = min(self._unchanged_until, until)
            if until is not None and until <= now and row.state == "Alive":
                row = replace(row, state="Absent")
            if saving:
                asleep = row.state == "Absent" and until is not None and until > now
                marked = {**row.properties, ASLEEP: asleep}
                row = replace(row, state="Alive" if asleep else row.state, properties=marked)
            resources.append(row)
        order = self._configuration.scheduler.resource_order
        return resources, (ASLEEP, *order) if saving else order

    def _check_order(self, connection: Connection) -> None:
        """Raise :class:`UsageError`, at the first reading, for an unknown property that a setting names.

        If a property is dropped later, it orders nothing, and jobs go on.
        """
        if self._order_checked:
            return
        known = {column.name for column in properties.properties(connection)}
        named = [("resource_order", name) for name in self._configuration.scheduler.resource_order]
        for setting, name in (*named, ("node_type", self._configuration.scheduler.node_type)):
            if name and name not in known:
                raise UsageError(
                    f"scheduler.{setting}: there is no property '{name[:60]}'", hint="oarproperty -l lists them"
                )
        self._order_checked = True

    def _fetch_requests(self, connection: Connection, submissions: set[int]) -> None:
        """Read the requests of new or changed submissions; an unchanged request stays the same object."""
        for gone in self._requests.keys() - submissions:
            del self._requests[gone]
        missing = (submissions - self._requests.keys()) | (submissions & self._rows.renewed)
        if not missing:
            return
        by_submission = alternatives(snapshot_rows.requests(connection, missing))
        for submission in missing:
            ways = by_submission.get(submission, {})
            request = ReadRequest(tuple(ways.values()), tuple(ways))
            if self._requests.get(submission) != request:
                self._requests[submission] = request
        self._rows.renewed.clear()

    def _waiting_jobs(
        self,
        rows: Sequence[StoredJob],
        depends_on: Mapping[int, tuple[Dependency, ...]],
        stopped: frozenset[str],
        withheld: Mapping[int, str],
        *,
        some: bool,
    ) -> tuple[WaitingJob, ...]:
        """Return the waiting jobs; a job that is withheld or cannot be read gets its reason and no place.

        If they are only ``some`` of all jobs, the others stay cached.
        """

        def aside(source: Any, reason: str) -> _Made:
            return _Made((source[0], (), False, reason), unplaced(source[0], reason))

        before, jobs_read = self._jobs, {}
        for row in rows:  # nearly all are as they were
            source = row, depends_on.get(row.id, ()), row.queue in stopped, withheld.get(row.id, "")
            if (entry := before.get(row.id)) is None or entry.source != source:
                (entry,) = made_of([source], lambda it: _Made(it, self._job(*it)), aside)
            jobs_read[row.id] = entry
        if some:
            before.update(jobs_read)
        else:
            self._jobs = jobs_read
        jobs = tuple(entry.job for entry in jobs_read.values())
        for part in self._parts:
            jobs = part.changed(jobs, self._platform)
        return jobs

    def _job(self, row: StoredJob, depends_on: tuple[Dependency, ...], stopped: bool, withheld: str) -> WaitingJob:
        if withheld:
            return unplaced(row, str(Reason(Why.SET_ASIDE, withheld)))
        dates, fault = _dates(row)
        unasked = row.id in self._unasked
        return WaitingJob.of(
            row,
            alternatives=self._requests[row.submission].alternatives,
            depends_on=depends_on,
            held=row.held or stopped or unasked,
            dates=dates,
            fault=fault,
            stopped=stopped and not row.held,
            unasked=unasked,
            ranked=self._ranks.get(row.id),
        )

    def _reservations(
        self,
        rows: Sequence[snapshot_rows.ReservedRow],
        waiting: Sequence[StoredJob],
        depends_on: Mapping[int, tuple[Dependency, ...]],
    ) -> tuple[tuple[Reservation, ...], dict[int, str]]:
        """Return the accepted reservations that have not started, and why there are others that cannot be read.

        Those of a queue that is stopped do start.
        """
        names = {row.id: row for row in waiting} if rows else {}
        broken: dict[int, str] = {}

        def make(row: snapshot_rows.ReservedRow) -> Reservation:
            if row.start is None or row.walltime is None:
                raise ValueError("it will hold resources, and has no start or no walltime")
            job = self._job(names[row.id], depends_on.get(row.id, ()), False, "")
            moldables = self._requests[names[row.id].submission].moldables
            if row.moldable not in moldables:
                raise ValueError(f"its alternative {row.moldable} is none of its submission")
            place = moldables.index(row.moldable)
            promised = structs.replace(job, alternatives=job.alternatives[place : place + 1])
            return Reservation(promised, row.start, row.walltime, row.resources, place)

        def aside(row: snapshot_rows.ReservedRow, reason: str) -> None:
            broken[row.id] = reason

        return tuple(made_of((row for row in rows if row.id in names), make, aside)), broken

    def _holding_jobs(
        self, rows: Sequence[StoredHolder], amounts: Mapping[int, HeldAmounts], now: int
    ) -> list[HoldingJob]:
        """Return the jobs that hold resources; the bits of unchanged holders come from the last pass."""
        known, self._bits = self._bits, {}
        for row in rows:
            cached = known.get(row.id)
            if cached is None or cached[0] != row.resources:
                cached = row.resources, self._platform.bits_of(row.resources)
            self._bits[row.id] = cached
        self._begun = {row.id: self._begun[row.id] for row in rows if row.id in self._begun}
        return [
            _holding_job(
                row,
                self._start(row),
                self._bits[row.id][1],
                amounts.get(row.id, _NO_AMOUNTS),
                self._platform.bits_of(row.suspended),
                now,
            )
            for row in rows
        ]

    def _start(self, row: StoredHolder) -> int:
        """Return when a job began to hold: when it was started here, unless its launch took long."""
        begun = self._begun.get(row.id)
        return begun if begun is not None and abs(row.start - begun) <= LAUNCH else int(row.start)

    def _resolve_all(self, connection: Connection, texts: set[str]) -> None:
        """Resolve the conditions of the waiting jobs; forget others, and their compiled forms, if there are many."""
        if len(self._filters) + len(self._errors) > _MOST_CONDITIONS + 2 * len(texts):
            self._filters = {text: bits for text, bits in self._filters.items() if text in texts}
            self._errors = {text: error for text, error in self._errors.items() if text in texts}
            self._returning = {text: bits for text, bits in self._returning.items() if text in texts}
            self._shown = {text: shown for text, shown in self._shown.items() if text in texts}
        if len(self.matchers) > _MOST_CONDITIONS + 2 * len(self._requests):
            self.matchers = Matchers(self._platform)
        self.resolve(connection, texts)

    def resolve(self, connection: Connection, texts: Iterable[str]) -> None:
        """Find the resources that meet each condition; a condition that cannot be evaluated is an error of its jobs."""
        for text in texts:
            if text in self._filters or text in self._errors:
                continue
            try:
                condition = compile_filter(text, self._kinds)
                with connection.transaction():
                    meeting = self._platform.bits_of(snapshot_rows.matching(connection, *condition.sql))
            except (OarpyError, psycopg.DataError, psycopg.ProgrammingError) as error:
                self._errors[text] = str(error).splitlines()[0]
                continue
            of_type = self._platform.everything if "type" in condition.columns else self._platform.default_type
            self._filters[text] = meeting & of_type
            if self._any_away and not condition.columns.isdisjoint(snapshot_rows.RETURNED):
                back = snapshot_rows.matching_when_back(connection, self._kinds, *condition.sql)
                self._returning[text] = self._platform.bits_of(back) & of_type & ~meeting
            if not condition.columns.isdisjoint(("drain", "type")):
                self._shown[text] = without_usual(text)


def alternatives(rows: Iterable[snapshot_rows.GroupRow]) -> dict[int, dict[int, Alternative]]:
    """Return the alternatives of each submission by their ids, in order."""
    by_submission: dict[int, dict[int, Alternative]] = {}
    for row in rows:
        group = Group(tuple(Level(*level) for level in row.levels), row.filter)
        ways = by_submission.setdefault(row.submission, {})
        known = ways.get(row.moldable)
        if known is None:
            amounts = tuple(Consumption(*amount) for amount in row.amounts)
            ways[row.moldable] = Alternative((group,), int(row.walltime), amounts)
        else:
            ways[row.moldable] = replace(known, groups=(*known.groups, group))
    return by_submission


def rules_of(configuration: Configuration) -> Rules:
    """Return the settings that decisions follow. Raises :class:`UsageError` for a setting that cannot be read."""
    scheduler, walltime, energy = configuration.scheduler, configuration.walltime, configuration.energy
    keep = read_keep_alive(energy.keep_alive)
    return Rules(
        besteffort_kill_before_reservation=scheduler.besteffort_kill_before_reservation,
        reservation_wait=scheduler.reservation_wait,
        walltime_apply_time=walltime.apply_time,
        walltime_increment=walltime.increment,
        power=PowerRules(energy.wakeup_time, energy.sleep_time, tuple(keep)) if energy.active else None,
    )


def _queue(row: snapshot_rows.QueueRow) -> Queue:
    return Queue(row.name, row.priority, row.policy, row.active, row.gives_way_to)


def _walltime_request(row: walltime_changes.PendingChange) -> WalltimeRequest:
    return WalltimeRequest(
        row.job,
        row.pending,
        row.queue,
        row.walltime,
        row.ends_at,
        row.granted,
        forced=row.forced,
        whole=row.whole,
        delay_next_jobs=row.delay_next_jobs,
        give_up_at=row.give_up_at,
        running=row.state == JobState.RUNNING,
        over=row.state in FINAL_STATES,
    )


def _power(row: power.PowerRow) -> Power:
    if row.asked == "sleep":
        # one whose command failed may be needed before that succeeds
        return "asleep" if row.sent or row.tries else "falling"
    return "waking"


@dataclass(slots=True)
class _Anteriors:
    """The dependencies of waiting jobs, by job, with outcomes and spans of ended anteriors."""

    of: dict[int, tuple[Dependency, ...]] = field(default_factory=dict)
    outcomes: dict[int, Literal["ok", "notok"]] = field(default_factory=dict)
    spans: dict[int, tuple[float, float]] = field(default_factory=dict)


def _anteriors(connection: Connection, jobs: Sequence[int]) -> _Anteriors:
    anteriors = _Anteriors()
    for row in snapshot_rows.dependencies(connection, jobs):
        anteriors.of[row.job] = (*anteriors.of.get(row.job, ()), row.dependency)
        if row.ended is not None:
            anteriors.outcomes[row.dependency.job] = cast(Literal["ok", "notok"], row.ended)
            anteriors.spans[row.dependency.job] = row.span
    return anteriors


def _dates(row: StoredJob) -> tuple[JobDates, str]:
    """Return the dates of a job, or the error in them; a reservation has its own dates."""
    if not row.types or row.reservation is not None:
        return NO_DATES, ""
    try:
        return read_types(row.types).dates(), ""
    except OarpyError as error:
        return NO_DATES, str(error)


def _held(connection: Connection, accepted: Collection[int]) -> list[StoredHolder]:
    """Return the holders of resources, and the jobs that keep resources for which a start or acceptance was refused."""
    held, refusals = snapshot_rows.holding(connection, StoredHolder), refusals_of(connection)
    if refusals.contested:
        strays = snapshot_rows.strays(
            connection, refusals.contested, [row.id for row in held], list(accepted), StoredHolder
        )
        refusals.contested = {resource for row in strays for resource in row.resources}
        held += strays
    return held


def _promises(
    reservations: Iterable[Reservation], leaving: Iterable[snapshot_rows.ReservedRow], now: int
) -> list[HoldingJob]:
    """Return the holds of accepted reservations; ``leaving`` reservations hold until the canceller has ended them."""
    promises = [job for reservation in reservations if (job := promised(reservation, now)) is not None]
    return [*promises, *map(_leaving, leaving)]


def _gone(reserved: Iterable[snapshot_rows.ReservedRow], rows: Iterable[StoredJob]) -> list[snapshot_rows.ReservedRow]:
    """Return the reserved rows of jobs that do not wait any more."""
    waiting = {row.id for row in rows}
    return [row for row in reserved if row.id not in waiting]


def _leaving(row: snapshot_rows.ReservedRow) -> HoldingJob:
    """Return the hold of a reservation that is being killed."""
    return HoldingJob(row.id, "", int(row.start or 0), math.ceil(row.walltime or 1), resources=row.resources)


def _holding_job(
    row: StoredHolder, start: int, bits: int, amounts: HeldAmounts, given_back: int, now: int
) -> HoldingJob:
    """Return a job that holds resources. If it is over its walltime, it is expected to hold a little longer."""
    # up, not down: with the parts of a second that a job was suspended, it would else be over before its end
    walltime = math.ceil(row.walltime)
    walltime = max(walltime, now + OVERRUN - start if start + walltime <= now else 0)
    return HoldingJob.of(
        row,
        start=min(start, now),
        walltime=walltime + max(start - now, 0),
        bits=bits,
        consumes=amounts.held,
        kept_amounts=amounts.kept,
        given_back=given_back,
        amounts_given_back=amounts.given_back,
        checkpoint=row.checkpoint if row.leaves_at is None else max(math.ceil(row.leaves_at) - now, 0),
    )
