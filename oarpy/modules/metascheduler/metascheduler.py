"""The meta-scheduler: reads a snapshot, asks the pure core to decide, writes the decisions. One transaction a pass."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import structlog

from oarpy.cluster_state.array_tails import ArrayTails, can_be_decided
from oarpy.cluster_state.order_plugins import SiteOrders
from oarpy.cluster_state.priority_history import record_rules
from oarpy.cluster_state.set_aside import indecisive, left_out
from oarpy.cluster_state.snapshot_reader import Reading, SnapshotReader
from oarpy.cluster_state.trace import decisions_json, placement_json, scenario_of
from oarpy.configuration import Configuration
from oarpy.model.durations import format_duration
from oarpy.model.job_types import JobTypes, read_types
from oarpy.model.reasons import Reason, Why
from oarpy.modules.loop.logging import job_ranges
from oarpy.modules.loop.module import Outcome
from oarpy.modules.metascheduler import window_writes
from oarpy.modules.metascheduler.first_predictions import ToldStarts
from oarpy.modules.metascheduler.verdict_history import KeptVerdicts
from oarpy.modules.metascheduler.written_predictions import RangeTexts, ToldPredictions, Writing, multirange
from oarpy.scheduler.decide import Decisions, Refusal, decide
from oarpy.scheduler.gantt.exclusive_levels import Blocks
from oarpy.scheduler.memory import Memory
from oarpy.scheduler.plan import Placement, Plan
from oarpy.scheduler.rules.energy import PowerOrders
from oarpy.scheduler.rules.reservations import JobStart
from oarpy.scheduler.rules.walltime_changes import WalltimeAnswers
from oarpy.scheduler.snapshot import PartId, Reservation, Snapshot
from oarpy.scheduler.verdicts import Verdict
from oarpy.store import notifications
from oarpy.store.accounting import record_weights
from oarpy.store.database import Connection
from oarpy.store.jobs import suspensions, walltime_changes
from oarpy.store.passes import decisions
from oarpy.store.passes.state_statistics import StateStatistics
from oarpy.store.platform import exclusive_levels, power
from oarpy.store.platform.queues import report_policies
from oarpy.store.refusals import refusals_of

log = structlog.get_logger()

Predictions = dict[int, decisions.Prediction]
"""By job."""

_PROMISED = Reason(Why.PROMISED)
_REWRITE_PERIOD = 60
"""Seconds after which predictions and rules of karma are written again, even if they were changed by hand.

So often the starts that came are learnt from, too.
"""


class Metascheduler:
    """The module around ``decide()``. Remembers its last writes, to write only changes."""

    name = "metascheduler"

    def __init__(self, configuration: Configuration) -> None:
        self.period = configuration.modules.metascheduler
        self._settings, self._priority = configuration.scheduler, configuration.priority
        self._weights = configuration.accounting.weights
        self._reader = SnapshotReader(configuration)
        self._reader.begin_passes()
        self._orders = SiteOrders()
        self._memory = Memory(time.monotonic, compression=configuration.scheduler.compression)
        self._told = ToldPredictions()
        self._starts = ToldStarts()
        self._verdicts = KeptVerdicts()
        self._statistics = StateStatistics()
        self._texts = RangeTexts()
        self._tails = ArrayTails()
        self._connection: Connection | None = None
        self._rewritten = 0.0
        self._levels: Mapping[str, str] | None = None

    def files(self) -> Sequence[int]:
        """Return nothing: notifications alone are a reason to run."""
        return ()

    def run_once(self, connection: Connection, now: datetime) -> Outcome:
        """Run one pass."""
        if connection is not self._connection:
            self._starts.forget()
            self._verdicts.forget()
        if connection is not self._connection or time.monotonic() - self._rewritten > _REWRITE_PERIOD:
            self._connection, self._rewritten = connection, time.monotonic()
            self._told.forget()
            self._levels = None
            self._starts.learn(connection)
            record_rules(connection, self._priority)
            record_weights(connection, self._weights)
        if refusals_of(connection).careful:
            self._memory.forget()
        try:
            return self._pass(connection, int(now.timestamp()))
        except Exception:
            # another session gave a resource away since the snapshot was read, say: no decision was carried out
            self._memory.forget()
            self._reader.forget_seen()
            self._statistics.forget()
            self._levels = None
            raise

    def _pass(self, connection: Connection, now: int) -> Outcome:
        """Read, decide and write in one transaction; say when the next pass is due."""
        began = time.monotonic()
        with connection.transaction():
            heads = self._decide_about_heads(connection, now)
            if heads is None:
                read = self._reader.read(connection, now)
                if self._has_other_levels(connection, read.snapshot):
                    read = self._reader.read(connection, now)
                if waits := [due for part in read.parts if (due := part.not_before(read.snapshot)) is not None]:
                    return Outcome(wake_at=min(waits))
                self._statistics.renew(connection, len(read.snapshot.asking))
                reading, decided = self._decide(connection, read)
            else:
                (reading, decided), read = heads, heads[0]
            if self._settings.record_passes:
                _record(Path(self._settings.record_passes), reading.snapshot, decided)
            begun, writing, verdicts = self._write(connection, reading, decided, read.snapshot)
            snapshot = reading.snapshot
            predictions = self._starts.tell(connection, snapshot, writing.changed)
            looked_at = len(snapshot.asking) + len(snapshot.reservations) + self._tails.jobs
            number = decisions.record_pass(connection, time.monotonic() - began, looked_at, len(begun))
        self._memory.lasted(time.monotonic() - began)
        # Only now: rows that are rolled back, for whatever reason, were not written.
        self._reader.note_begun(begun, now)
        if heads is None:
            self._tails.renew(snapshot, whole=not decided.plan.unseen)
        self._tails.started(begun)
        for part in reading.parts:
            part.committed(decided, snapshot)
        if reading.windows is not None:
            reading.windows.committed(decided.kept.snapshot)
        owed = self._told.committed(writing, began)
        self._starts.committed(predictions, writing.told)
        self._verdicts.committed(verdicts, begun, writing.told)
        word = f"started {len(begun)}" if begun else "nothing"
        if decided.victims:
            word += f", {len(decided.victims)} best-effort to cancel"
        delays = (owed, self._memory.owed(decided.plan))
        instants = [time.time() + delay for delay in delays if delay is not None]
        wanted = (part.next_pass(decided, snapshot, now) for part in reading.parts)
        instants += [instant for instant in wanted if instant is not None]
        if decided.wake_at is not None:
            instants.append(max(decided.wake_at, now + 1))
        for part in reading.parts:
            part.noted(read.snapshot, min(instants, default=None))
        named = {"pass": number, "jobs": job_ranges(begun), "victims": job_ranges(decided.victims)}
        return Outcome(word, wake_at=min(instants, default=None), named=named)

    def _decide_about_heads(self, connection: Connection, now: int) -> tuple[Reading, Decisions] | None:
        """Decide about starts without the tails of large arrays; None where that is impossible without them."""
        if not self._memory.decides_starts_only() or self._settings.record_passes or not (runs := self._tails.runs()):
            return None
        reading = self._reader.read(connection, now, without=runs)
        if can_be_decided(reading.snapshot):
            decided = decide(reading.snapshot, self._memory, self._orders, self._reader.matchers)
            if self._tails.are_behind(decided.plan):
                return reading, decided
        self._tails.give_up()
        return None

    def _decide(self, connection: Connection, reading: Reading) -> tuple[Reading, Decisions]:
        """Decide about a reading; leave out jobs about which nothing can be decided, and return the rest."""
        try:
            return reading, decide(reading.snapshot, self._memory, self._orders, self._reader.matchers)
        except Exception:
            log.exception("no decision")
            self._memory.forget()
            undecided = indecisive(reading.snapshot, lambda some: decide(some, None, self._orders))
            if not undecided:
                raise
        for job, reason in undecided.items():
            refusals_of(connection).withhold(connection, job, f"it cannot be decided about: {reason}")
        reading = replace(
            reading, snapshot=left_out(reading.snapshot, undecided), withheld={**reading.withheld, **undecided}
        )
        return reading, decide(reading.snapshot, None, self._orders)

    def _write(
        self, connection: Connection, reading: Reading, decided: Decisions, seen: Snapshot
    ) -> tuple[list[int], Writing, dict[int, str]]:
        """Write the decisions; return the jobs that really start, the predictions of the others, and new verdicts.

        ``reading`` leaves out jobs about which nothing can be decided, ``seen`` does not.
        """
        security, rows = self._settings.security_time, _Rows(reading)
        decisions.move(connection, [rows.move(moved) for moved in decided.kept.moves], security)
        window_writes.move(connection, decided, security)
        suspensions.give_back(connection, decided.resumed)
        started = decisions.start(connection, [rows.start(start) for start in decided.starts])
        gone = set(started)
        decisions.log(connection, [event for event in decided.events if event[0] in gone])
        decisions.accept(connection, [rows.accepted(placement) for placement in decided.accepted], security)
        _refuse(connection, decided.refused)
        window_writes.write(connection, decided, self._settings.offer_time)
        decisions.kill(connection, decided.victims, self._settings.suspended_resource_types)
        self._texts.begin(reading.snapshot.platform)
        withheld = {**reading.withheld, **refusals_of(connection).withheld()}
        predictions = _predictions(rows, decided, gone, self._texts, withheld)
        waits_no_more = gone if reading.snapshot.heads else None
        writing = self._told.compare(predictions, time.monotonic(), decided.plan.unseen, waits_no_more)
        decisions.predict(connection, writing.changed)
        if writing.left is None or writing.left - gone:
            decisions.forget_predictions(connection, writing.left)
        verdicts: dict[int, str] = {}
        if seen.parts:
            seen = replace(seen, parts=())
        if self._settings.verdict_history:
            orders, matchers = self._orders, self._reader.matchers
            verdicts = self._verdicts.note(connection, seen, writing.changed, gone, orders, matchers)
        for part in reading.parts:
            part.write(connection, decided, reading.snapshot, gone)
        _order_power(connection, decided.power)
        if not decided.plan.unseen:
            _report_policies(connection, reading.snapshot, decided.plan)
        _answer_walltimes(connection, decided.walltimes)
        _report_faults(decided)
        return started, writing, verdicts

    def _has_other_levels(self, connection: Connection, snapshot: Snapshot) -> bool:
        """Have the database hold blocks of the exclusive levels, too; return whether these are others than before."""
        names = Blocks.of(snapshot).names
        if names == self._levels:
            return False
        self._levels = names
        return exclusive_levels.record(connection, names)


class _Rows:
    """Rows to write for decisions: with ids of the database, and whether resources are held alone."""

    def __init__(self, reading: Reading) -> None:
        self._snapshot, self._requests = reading.snapshot, reading.requests
        self.jobs = reading.requests.keys()
        self.reserved = {reservation.job.id: reservation for reservation in reading.snapshot.reservations}

    @cached_property
    def _types(self) -> dict[int, tuple[str, ...]]:
        """The types of jobs, where there are any."""
        jobs = (*self._snapshot.waiting, *(reservation.job for reservation in self._snapshot.reservations))
        return {job.id: job.types for job in jobs if job.types}

    def _types_of(self, job: int) -> JobTypes:
        return read_types(self._types.get(job, ()))

    def moldable(self, job: int, alternative: int) -> int:
        """Return the id of an alternative, which is given by its place."""
        return self._requests[job].moldables[alternative]

    def start(self, start: JobStart) -> decisions.StartRow:
        """Return a start."""
        # The message of a moldable job was written before anybody knew which alternative it would be.
        moldable = self._has_other_request(start) and start.job not in self.reserved
        resources, types = self._snapshot.platform.ids_of(start.bits), self._types_of(start.job)
        return decisions.StartRow(
            start.job,
            self.moldable(start.job, start.alternative),
            start.walltime,
            resources,
            types.alone,
            types.guest,
            f"R={len(resources)},W={format_duration(int(start.walltime))}" if moldable else "",
        )

    def _has_other_request(self, start: JobStart) -> bool:
        """Tell whether the job was submitted with another alternative, or another walltime, than it starts with."""
        request = self._requests[start.job]
        if len(request.moldables) > 1:
            return True
        return self._snapshot.fitting is not None and start.walltime != request.alternatives[start.alternative].walltime

    def accepted(self, placement: Placement) -> decisions.AcceptedRow:
        """Return a reservation that is accepted."""
        assert placement.start is not None
        assert placement.alternative is not None
        return decisions.AcceptedRow(
            placement.job,
            self.moldable(placement.job, placement.alternative),
            placement.start,
            self._requests[placement.job].alternatives[placement.alternative].walltime,
            placement.resources,
            # it may share with the job whose place it is to take, which keeps others away
            self._types_of(placement.job).alone and placement.job not in self._snapshot.amending,
        )

    def move(self, reservation: Reservation) -> decisions.Move:
        """Return a reservation that goes to other resources."""
        return decisions.Move(
            reservation.job.id,
            reservation.start,
            reservation.walltime,
            reservation.resources,
            read_types(reservation.job.types).alone,
        )

    def prediction(self, placement: Placement, texts: RangeTexts) -> decisions.Prediction:
        """Return the prediction of a waiting job."""
        if placement.start is None or placement.end is None or placement.alternative is None:
            return decisions.Prediction(placement.job, placement.verdict, placement.reason, None, None, None, "{}")
        moldable = self.moldable(placement.job, placement.alternative)
        return decisions.Prediction(
            placement.job,
            placement.verdict,
            placement.reason,
            moldable,
            placement.start,
            placement.end,
            texts.of(placement.bits),
        )

    def awaiting(self, reservation: Reservation, reason: Reason) -> decisions.Prediction:
        """Return the prediction of an accepted reservation."""
        moldable, resources = (
            self.moldable(reservation.job.id, reservation.alternative),
            multirange(reservation.resources),
        )
        return decisions.Prediction(
            reservation.job.id, Verdict.RESERVED, reason, moldable, reservation.start, reservation.end, resources
        )


def _predictions(
    rows: _Rows, decided: Decisions, gone: set[int], texts: RangeTexts, withheld: Mapping[int, str]
) -> Predictions:
    predictions = {
        placement.job: rows.prediction(placement, texts)
        for placement in decided.plan.placements
        if placement.job not in gone
        and placement.verdict is not Verdict.STARTS
        and not isinstance(placement.job, PartId)
    }
    for job, words in withheld.items():
        if job not in gone and job in rows.jobs and job not in rows.reserved:
            reason = Reason(Why.SET_ASIDE, words)
            predictions[job] = decisions.Prediction(job, Verdict.NEVER, reason, None, None, None, "{}")
    awaiting = {**decided.awaiting, **{job: Reason(Why.FAULT, words) for job, words in withheld.items()}}
    for reservation in decided.kept.snapshot.reservations:
        if reservation.job.id not in gone:
            predictions[reservation.job.id] = rows.awaiting(reservation, awaiting.get(reservation.job.id, _PROMISED))
    return predictions


def _refuse(connection: Connection, refused: Sequence[Refusal]) -> None:
    """End waiting jobs in error, by the type of the event."""
    for event, jobs in groupby(refused, key=lambda refusal: refusal.event):
        some = [*jobs]
        offers = {refusal.job: refusal.offer for refusal in some if refusal.offer is not None}
        decisions.refuse(connection, [(refusal.job, refusal.reason) for refusal in some], event, offers)


def _order_power(connection: Connection, orders: PowerOrders) -> None:
    """Send the orders to the module for energy."""
    power.ask_sleep(connection, orders.sleep)
    power.ask_wake(connection, orders.wake)
    if orders.sleep or orders.wake:
        notifications.tell(connection, "energy")


def _answer_walltimes(connection: Connection, answers: WalltimeAnswers) -> None:
    for reason, jobs in groupby(answers.dropped, key=itemgetter(1)):
        walltime_changes.drop(connection, [job for job, _ in jobs], reason)
    walltime_changes.grant(connection, answers.granted)


def _record(folder: Path, snapshot: Snapshot, decided: Decisions) -> None:
    """Write the snapshot and the decisions of a pass to two files, named by the clock."""
    name = f"pass-{time.time_ns()}"
    placements = [placement_json(placement, snapshot.show_instant) for placement in decided.plan.placements]
    record = {"jobs": placements, "decisions": decisions_json(decided)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.json").write_text(json.dumps(scenario_of(snapshot)), encoding="utf-8")
        (folder / f"{name}.decided").write_text(json.dumps(record), encoding="utf-8")
    except OSError as error:  # jobs do not wait for a full disk
        log.error("scheduler.record_passes", reason=str(error))


def _report_faults(decided: Decisions) -> None:
    """Log settings that could not be read."""
    for fault in decided.walltimes.faults:
        log.error("walltime", reason=fault)
    if decided.windows.fault:
        log.error("scheduler.reservation_order", reason=decided.windows.fault)
    snapshot = decided.kept.snapshot
    for text, _ in snapshot.rules.power.keep if snapshot.rules.power else ():
        if text in snapshot.filter_errors:
            log.error("energy.keep_alive", condition=text, reason=snapshot.filter_errors[text])


def _report_policies(connection: Connection, snapshot: Snapshot, plan: Plan) -> None:
    """Show at a queue that its policy failed, or take that back when its jobs were ordered."""
    ordered = {job.queue for job in snapshot.asking if job.reservation is None} - plan.broken.keys()
    for queue, reason in report_policies(connection, plan.broken, ordered).items():
        if reason:
            log.error("queue policy failed", queue=queue, reason=reason)
