"""The meta-scheduler: reads a snapshot, asks the pure core for a plan, writes the plan. One transaction a pass."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime

import psycopg
import structlog

from oarpy.configuration import Configuration
from oarpy.model.durations import format_duration
from oarpy.model.job_types import read_types
from oarpy.model.keep_alive import read_keep_alive
from oarpy.modules.lapses import lapsed, next_lapse, next_start_asked
from oarpy.modules.module import Outcome
from oarpy.modules.passes import Passes
from oarpy.modules.policies import Policies
from oarpy.modules.range_texts import RangeTexts, multirange
from oarpy.modules.reservations import Due, due_reservations, whole_again
from oarpy.modules.sleeping import once_awake, order_power
from oarpy.modules.snapshot_reader import Reading, SnapshotReader
from oarpy.modules.told_predictions import ToldPredictions, Writing
from oarpy.modules.walltime_grants import grant_walltimes
from oarpy.scheduler.energy import Keep
from oarpy.scheduler.plan import Placement, Plan, plan
from oarpy.scheduler.snapshot import Snapshot
from oarpy.scheduler.verdicts import Verdict
from oarpy.store import decisions, suspensions
from oarpy.store.consumables import ENOUGH_LEFT
from oarpy.store.database import Connection
from oarpy.store.queues import report_policies
from oarpy.store.scheduling import ReservedRow

log = structlog.get_logger()

Predictions = dict[int, decisions.Prediction]
"""By job."""

_RETRY = 0.2
"""Seconds until a pass is tried again whose starts the database has refused."""
_REWRITE_PERIOD = 60
"""Seconds after which all predictions are written again, whatever was done to the table by hand."""


class Metascheduler:
    """The module around ``plan()``. Remembers what it wrote last, to write only what changed."""

    name = "metascheduler"

    def __init__(self, configuration: Configuration) -> None:
        self.period = configuration.modules.metascheduler
        self._settings = configuration.scheduler
        self._walltime = configuration.walltime
        self._energy = configuration.energy
        self._keep = read_keep_alive(configuration.energy.keep_alive)
        self._reader = SnapshotReader(configuration, frozenset(text for text, _ in self._keep if text))
        self._policies = Policies()
        self._passes = Passes(compression=configuration.scheduler.compression)
        self._told = ToldPredictions()
        self._texts = RangeTexts()
        self._connection: Connection | None = None
        self._rewritten = 0.0
        self._amounts_refused = False

    def files(self) -> Sequence[int]:
        """Nothing besides notifications."""
        return ()

    def run_once(self, connection: Connection, now: datetime) -> Outcome:
        """Run one pass."""
        if connection is not self._connection or time.monotonic() - self._rewritten > _REWRITE_PERIOD:
            self._connection, self._rewritten = connection, time.monotonic()
            self._told.forget()
        try:
            return self._pass(connection, int(now.timestamp()))
        except psycopg.errors.ExclusionViolation as error:
            # Somebody else gave a resource away since the snapshot was read: look again.
            log.warning("resource already held", detail=(error.diag.message_detail or "")[:300])
            self._passes.forget()
            return Outcome("resource already held", wake_at=time.time() + _RETRY)
        except psycopg.errors.CheckViolation as error:
            if error.diag.constraint_name != ENOUGH_LEFT:
                raise
            # The same of an amount. Whatever the reason is, jobs that ask for none do not wait for it.
            self._amounts_refused = True
            self._passes.forget()
            log.warning("amount not left", detail=(error.diag.message_primary or "")[:300])
            return Outcome("amount not left", wake_at=time.time() + _RETRY)

    def _pass(self, connection: Connection, now: int) -> Outcome:
        began = time.monotonic()
        with connection.transaction():
            reading, moves = whole_again(self._reader.read(connection, now), now)
            decisions.move(connection, moves, self._settings.security_time)
            foreseen = self._passes.plan(
                reading.snapshot, self._policies, self._reader.matchers, whole=self._energy.active
            )
            asked = {row.id for row in reading.waiting.values() if row.reservation is not None}
            result = once_awake(foreseen, reading.asleep, asked, self._energy.wakeup_time)
            due = due_reservations(reading, now, self._settings)
            begun, writing = self._write(connection, reading, result, due)
            if self._energy.active:
                self._save_energy(connection, reading, result, due)
            next_change = None
            if not result.unseen:  # what takes all predictions waits for a pass that has them
                _report_policies(connection, reading, result)
                next_change = grant_walltimes(connection, reading.snapshot, foreseen, self._walltime, self._plan)
            decisions.record_pass(connection, time.monotonic() - began, len(reading.waiting))
        # Only now: what is rolled back, for whatever reason, was not written.
        self._reader.note_begun(begun, now)
        owed = self._told.committed(writing, began)
        again, self._amounts_refused = self._amounts_refused, False
        word = f"started {len(begun)}" if begun else "nothing"
        if result.kill or due.kill:
            word += f", {len({*result.kill, *due.kill})} best-effort to cancel"
        instants = [
            *due.wake_at,
            next_change,
            next_lapse(reading, now),
            next_start_asked(reading, now),
            self._passes.next_start(result, now),
        ]
        delays = (owed, self._passes.owed(result), _RETRY if again else None)
        soon = [time.time() + one for one in delays if one is not None]
        later = [max(one, now + 1) for one in instants if one is not None]
        return Outcome(word, wake_at=min((*later, *soon), default=None))

    def _plan(self, snapshot: Snapshot) -> Plan:
        return plan(snapshot, self._policies, self._reader.matchers)

    def _save_energy(self, connection: Connection, reading: Reading, result: Plan, due: Due) -> None:
        filters, platform = reading.snapshot.filters, reading.snapshot.platform
        keep = []
        for text, number in self._keep:
            if text in reading.snapshot.filter_errors:
                log.error("energy.keep_alive", condition=text, reason=reading.snapshot.filter_errors[text])
            keep.append(Keep(filters.get(text, platform.default_type), number))
        orders = order_power(connection, reading, result, self._energy, keep)
        if orders.next_wake is not None:
            due.wake_at.append(orders.next_wake)

    def _write(self, connection: Connection, reading: Reading, result: Plan, due: Due) -> tuple[list[int], Writing]:
        starts = [_start(placement, reading) for placement in result.placements if placement.verdict is Verdict.STARTS]
        starts += due.starts
        suspensions.give_back(
            connection, [one.job for one in reading.resumptions if one.start == reading.snapshot.now and not one.kill]
        )
        if self._amounts_refused:
            starts = [start for start in starts if not _consumes(start, reading)]
        started = decisions.start(connection, starts)
        gone = set(started)
        decisions.log(connection, [event for event in due.events if event[0] in gone])
        decisions.accept(connection, _accepted(reading, result), self._settings.security_time)
        offers = {one.job: one.offer for one in result.placements if one.offer is not None}
        decisions.refuse(connection, _refused(reading, result), "RESERVATION_REFUSED", offers)
        decisions.refuse(connection, due.expired, "RESERVATION_NO_NODE")
        for lapse, jobs in lapsed(reading, result).items():
            decisions.refuse(connection, jobs, lapse)
        making_room = [victim for one in reading.resumptions for victim in one.kill]
        decisions.kill(connection, sorted({*result.kill, *due.kill, *making_room}))
        self._texts.begin(reading.snapshot.platform)
        writing = self._told.compare(
            _predictions(reading, result, due, gone, self._texts), time.monotonic(), result.unseen
        )
        decisions.predict(connection, writing.changed)
        return started, writing


def _report_policies(connection: Connection, reading: Reading, result: Plan) -> None:
    """Show at a queue that its policy failed, or take that back when its jobs were ordered."""
    ordered = {job.queue for job in reading.snapshot.waiting if job.reservation is None} - result.broken.keys()
    for queue, reason in report_policies(connection, result.broken, ordered).items():
        if reason:
            log.error("queue policy failed", queue=queue, reason=reason)


def _predictions(reading: Reading, result: Plan, due: Due, gone: set[int], texts: RangeTexts) -> Predictions:
    predictions = {
        placement.job: _prediction(placement, reading, texts)
        for placement in result.placements
        if placement.job not in gone and placement.verdict is not Verdict.STARTS
    }
    reasons = dict(due.waiting)
    for row in reading.reserved:
        if row.id not in gone:
            predictions[row.id] = _reserved(row, reasons.get(row.id, "accepted reservation"))
    return predictions


def _start(placement: Placement, reading: Reading) -> decisions.Start:
    assert placement.alternative is not None
    request = reading.requests[placement.job]
    walltime = request.alternatives[placement.alternative].walltime
    # The message of a moldable job was written before anybody knew which alternative it would be.
    moldable = len(request.alternatives) > 1
    return decisions.Start(
        placement.job,
        request.moldables[placement.alternative],
        walltime,
        placement.resources,
        read_types(reading.waiting[placement.job].types).exclusive,
        f"R={len(placement.resources)},W={format_duration(int(walltime))}" if moldable else "",
    )


def _consumes(start: decisions.Start, reading: Reading) -> bool:
    request = reading.requests[start.job]
    return bool(request.alternatives[request.moldables.index(start.moldable)].consumes)


def _accepted(reading: Reading, result: Plan) -> list[decisions.Reservation]:
    accepted = []
    for placement in result.placements:
        if placement.verdict is Verdict.RESERVED and placement.start is not None and placement.alternative is not None:
            request = reading.requests[placement.job]
            accepted.append(
                decisions.Reservation(
                    placement.job,
                    request.moldables[placement.alternative],
                    placement.start,
                    request.alternatives[placement.alternative].walltime,
                    placement.resources,
                    read_types(reading.waiting[placement.job].types).exclusive,
                )
            )
    return accepted


def _refused(reading: Reading, result: Plan) -> list[tuple[int, str]]:
    """New reservations get a yes or a no in their first pass; a no, for whatever reason, is final."""
    answered = (Verdict.RESERVED, Verdict.STARTS, Verdict.HELD)
    return [
        (placement.job, f"reservation refused: {placement.reason.removeprefix('refused: ') or placement.verdict}")
        for placement in result.placements
        if reading.waiting[placement.job].reservation is not None and placement.verdict not in answered
    ]


def _prediction(placement: Placement, reading: Reading, texts: RangeTexts) -> decisions.Prediction:
    if placement.start is None or placement.end is None or placement.alternative is None:
        reason, row = placement.reason, reading.waiting[placement.job]
        if placement.verdict is Verdict.HELD and not row.held:
            reason = f"queue '{row.queue}' is not active"
        return decisions.Prediction(placement.job, placement.verdict, reason, None, None, None, "{}")
    moldable = reading.requests[placement.job].moldables[placement.alternative]
    resources = texts.of(placement.bits)
    return decisions.Prediction(
        placement.job, placement.verdict, placement.reason, moldable, placement.start, placement.end, resources
    )


def _reserved(row: ReservedRow, reason: str) -> decisions.Prediction:
    end = row.start + row.walltime
    return decisions.Prediction(
        row.id, Verdict.RESERVED, reason, row.moldable, row.start, end, multirange(row.resources)
    )
