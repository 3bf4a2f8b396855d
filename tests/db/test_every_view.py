"""Every column of every view of ``oar_report`` and ``oar_compat``, of jobs of every kind.

What a view should show is worked out in Python from what :mod:`tests.harness.every_kind` did, and from the records of
jobs where only these know (messages, numbers of rows), never from the SQL of the view. A view or a column that
nothing here names is a failure.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any, TypeAlias

import pytest
from psycopg.rows import dict_row
from psycopg.sql import SQL, Identifier

from oarpy.store.schema import statements
from oarpy.store.schema.checks.catalog import describe
from tests.harness import virtual_time
from tests.harness.every_kind import CORES, DAY, LICENCES, MEMORY, NODES, EveryKind, Life
from tests.harness.virtual_time import Clock, Database

pytestmark = [pytest.mark.db, pytest.mark.oldest]

Row: TypeAlias = "dict[str, Any]"
COMPUTING = len(NODES) * CORES
"""Resources up to this number compute; the others are licences."""

UNREAD = ("month", "due_at")
"""Columns of records that may be infinity, which Python has no date for."""


@dataclass
class Told:
    """What is known of the world, for the expectations."""

    world: EveryKind
    now: float

    @cached_property
    def lives(self) -> list[Life]:
        """All jobs."""
        return self.world.lives

    @cached_property
    def live_tables(self) -> list[Life]:
        """Those that are not in the past."""
        return [life for life in self.lives if not life.filed]

    def records(self, table: str, schema: str = "oar_all") -> list[Row]:
        """The rows of a table, the past among them, without what the test does not ask for."""
        found = self.world.connection.execute(
            "SELECT column_name FROM information_schema.columns WHERE (table_schema, table_name) = (%s, %s)",
            [schema, table],
        )
        columns = SQL(", ").join(Identifier(name) for (name,) in found if name not in UNREAD)
        statement = SQL("SELECT {} FROM {}").format(columns, Identifier(schema, table))
        with self.world.connection.cursor(row_factory=dict_row) as cursor:
            return [plain(row) for row in cursor.execute(statement).fetchall()]

    @cached_property
    def by_job(self) -> dict[int, Row]:
        """The record of each job."""
        return {row["job_id"]: row for row in self.records("jobs")}


def plain(row: Row) -> Row:
    """Write instants as epoch seconds, exact numbers as floats."""
    return {name: _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.timestamp()
    return float(value) if isinstance(value, Decimal) else value


def near(value: float | None, within: float = 1.01) -> Any:
    """A number of which parts of a second do not matter."""
    return None if value is None else pytest.approx(value, abs=within)


def text(value: object) -> str:
    """What rows are ordered by."""
    return f"{value:>20}" if isinstance(value, int) else str(value)


# What is computed of a life


def computing(life: Life) -> list[int]:
    """Its resources that compute."""
    return [one for one in life.holds if one <= COMPUTING]


def node(resource: int) -> str | None:
    """The node of a resource."""
    return NODES[(resource - 1) // CORES] if resource <= COMPUTING else None


def nodes(life: Life) -> list[str]:
    """Its nodes."""
    return sorted({name for name in map(node, life.holds) if name})


def ran(life: Life, now: float) -> float | None:
    """For how many seconds it ran, standing still or not."""
    return None if life.started is None else (life.ended or now) - life.started


def still(life: Life, now: float) -> float:
    """For how many seconds it stood still."""
    return life.still + (now - life.still_since if life.still_since else 0)


def used(life: Life, now: float) -> float:
    """Resource-seconds that it had while it ran."""
    if life.started is None:
        return 0
    return sum(
        max((end or now) - max(begin, life.started), 0)
        for resource in computing(life)
        for begin, end in life.holds[resource]
    )


def asked(life: Life, now: float) -> float:
    """Resource-seconds that it asked for: what came later counts while it was held."""
    if life.walltime is None:
        return 0
    first = [one for one in computing(life) if one not in life.came_later]
    later = [stretch for one in life.came_later for stretch in life.holds[one]]
    return len(first) * life.walltime + sum((end or now) - begin for begin, end in later)


def day(moment: float) -> date:
    """The day of an instant."""
    return datetime.fromtimestamp(moment, UTC).date()


def epoch(value: float | None) -> Any:
    """An instant as OAR writes it."""
    return 0 if value is None else near(value)


def yes(value: object) -> str:
    """A truth as OAR writes it."""
    return "YES" if value else "NO"


# oar_report


def report_jobs(told: Told) -> list[Row]:
    return [
        {
            "job_id": life.job, "array_id": life.array, "array_index": life.index,
            "job_name": life.given.get("name", ""), "user_name": life.user, "project": life.project,
            "queue_name": life.queue, "kind": "INTERACTIVE" if "interactive" in life.given else "PASSIVE",
            "types": life.types, "state": life.state, "message": told.by_job[life.job]["message"],
            "exit_status": life.status, "attempt": life.attempt, "resubmit_of": life.copy_of,
            "reservation_start": near(life.reservation), "submitted_at": near(life.submitted),
            "started_at": near(life.started), "ended_at": near(life.ended),
            "wait_seconds": near((life.started or life.ended or told.now) - life.submitted),
            "run_seconds": near(ran(life, told.now)), "walltime_seconds": life.walltime,
            "nodes": len(nodes(life)), "resources": len(computing(life)), "cores": len(computing(life)),
            "core_hours": near(used(life, told.now) / 3600, 0.005) if life.started else None,
            "asked_core_hours": near(asked(life, told.now) / 3600, 0.005) if life.walltime else None,
            "suspended_seconds": near(still(life, told.now)),
        }
        for life in told.lives
    ]  # fmt: skip


def report_job_types(told: Told) -> list[Row]:
    return [
        {
            "job_id": life.job, "user_name": life.user, "state": life.state, "type": word.split("=", 1)[0],
            "value": word.split("=", 1)[1] if "=" in word else None,
        }
        for life in told.lives
        for word in life.types
    ]  # fmt: skip


def report_assigned_resources(told: Told) -> list[Row]:
    return [
        {
            "job_id": life.job, "user_name": life.user, "project": life.project, "queue_name": life.queue,
            "resource_id": resource, "resource_type": "default" if resource <= COMPUTING else "licence",
            "network_address": node(resource), "assigned_at": near(begin), "released_at": near(end),
            "seconds": near((end or told.now) - begin),
            "exclusive": not any(one.startswith(("container", "timesharing")) for one in life.types),
        }
        for life in told.lives
        for resource, stretches in life.holds.items()
        for begin, end in stretches
    ]  # fmt: skip


def report_assigned_amounts(told: Told) -> list[Row]:
    return [
        {
            "job_id": life.job, "user_name": life.user, "project": life.project, "queue_name": life.queue,
            "consumable": "memory", "level": "network_address", "unit": "count", "block": block, "amount": amount,
            "assigned_at": near(life.started), "released_at": near(life.ended),
            "seconds": near((life.ended or told.now) - (life.started or 0)),
        }
        for life in told.lives
        for block, amount in life.amounts.items()
    ]  # fmt: skip


def report_consumables(told: Told) -> list[Row]:
    held = Counter[str]()
    for life in told.lives:
        held.update(life.amounts if life.ended is None else {})
    return [
        {
            "consumable": "memory", "level": "network_address", "unit": "count", "block": name, "capacity": MEMORY,
            "held": held[name], "remaining": MEMORY - held[name],
        }
        for name in NODES
    ]  # fmt: skip


def failed(life: Life) -> bool:
    """Whether it is over, and did not do what it should."""
    return life.ended is not None and (life.state == "Error" or life.status not in (0, None))


def report_failures(told: Told) -> list[Row]:
    return [
        {
            "job_id": life.job, "ended_at": near(life.ended), "user_name": life.user, "project": life.project,
            "queue_name": life.queue, "state": life.state, "exit_status": life.status, "cause": life.cause,
            "network_address": name,
        }
        for life in told.lives
        if failed(life)
        for name in nodes(life) or (None,)
    ]  # fmt: skip


def report_besteffort_waste(told: Told) -> list[Row]:
    found: defaultdict[tuple[Any, ...], list[float]] = defaultdict(list)
    for life in counted(told):
        if life.cause == "BESTEFFORT_KILL":
            found[day(life.ended or 0), life.user, life.project].append(used(life, told.now))
    return [
        {"day": key[0], "user_name": key[1], "project": key[2], "jobs": len(values),
         "wasted_hours": near(sum(values) / 3600, 0.01)}
        for key, values in found.items()
    ]  # fmt: skip


def counted(told: Told) -> list[Life]:
    """What accounting has counted: it ran before anything of the present was deleted."""
    return [life for life in told.lives if told.by_job[life.job]["accounted"]]


def sums(told: Told, unit: int = DAY) -> dict[tuple[float, str, str, str, str], float]:
    """Consumption by window, user, project, queue and type."""
    found: defaultdict[tuple[float, str, str, str, str], float] = defaultdict(float)
    for life in counted(told):
        if life.started is None or life.walltime is None:
            continue
        parts = [
            ("USED", max(begin, life.started), end or told.now)
            for one in computing(life)
            for begin, end in life.holds[one]
        ]
        for one in computing(life):
            spans = life.holds[one] if one in life.came_later else [(life.started, life.started + life.walltime)]
            parts += [("ASKED", begin, end or told.now) for begin, end in spans]
        for kind, begin, end in parts:
            while begin < end:
                window = begin // unit * unit
                found[window, life.user, life.project, life.queue, kind] += min(end, window + unit) - begin
                begin = window + unit
    return {key: value for key, value in found.items() if value > 1}


def report_accounting(told: Told) -> list[Row]:
    found = sums(told)
    return [
        {
            "day": window, "user_name": user, "project": project, "queue_name": queue,
            "asked_seconds": near(found.get((*key, "ASKED"), 0), 20),
            "used_seconds": near(found.get((*key, "USED"), 0), 20),
            "used_hours": near(found.get((*key, "USED"), 0) / 3600, 0.01),
        }
        for key in {one[:4] for one in found}
        for window, user, project, queue in [key]
    ]  # fmt: skip


def report_daily_jobs(told: Told) -> list[Row]:
    groups: defaultdict[tuple[Any, ...], list[Life]] = defaultdict(list)
    for life in counted(told):
        groups[day(life.ended or 0), life.user, life.project, life.queue].append(life)
    rows = []
    for (ended, user, project, queue), lives in groups.items():
        started = [life for life in lives if life.started is not None]
        waits = [(life.started or 0) - life.submitted for life in started]
        slow = [
            max((wait + (ran(life, 0) or 0)) / max(ran(life, 0) or 0, 10), 1)
            for life, wait in zip(started, waits, strict=True)
        ]
        rows.append({
            "day": ended, "user_name": user, "project": project, "queue_name": queue, "jobs": len(lives),
            "failed_jobs": sum(map(failed, lives)), "started_jobs": len(started), "wait_seconds": near(sum(waits)),
            "longest_wait_seconds": near(max(waits, default=0)),
            "mean_wait_seconds": near(sum(waits) / len(waits)) if waits else None,
            "bounded_slowdowns": near(sum(slow), 0.01),
            "mean_bounded_slowdown": near(sum(slow) / len(slow), 0.01) if slow else None,
        })  # fmt: skip
    return rows


def report_efficiency(told: Told) -> list[Row]:
    rows = []
    for life in told.lives:
        if life.used is None:
            continue
        (peak_of, seconds), run = (life.used[1], life.used[0]), (ran(life, 0) or 0) - life.still
        memory = max(life.amounts.values(), default=0) or None
        rows.append({
            "job_id": life.job, "array_id": life.array, "job_name": life.given.get("name", ""),
            "user_name": life.user, "project": life.project, "queue_name": life.queue, "state": life.state,
            "started_at": near(life.started), "ended_at": near(life.ended), "nodes": len(nodes(life)),
            "cores": len(computing(life)), "run_seconds": near(run), "walltime_seconds": life.walltime,
            "core_seconds": near(used(life, 0), 5), "cpu_seconds": seconds,
            "cpu_efficiency": near(seconds / used(life, 0), 0.01), "memory_peak_bytes": peak_of,
            "memory_asked_bytes": memory, "memory_efficiency": near(peak_of / memory if memory else None, 0.01),
        })  # fmt: skip
    return rows


def report_job_state_history(told: Told) -> list[Row]:
    moves = {(row["from_state"], row["to_state"]): row for row in told.records("job_transitions", "public")}
    logs: defaultdict[int, list[Any]] = defaultdict(list)
    for row in told.records("job_state_logs"):
        logs[row["job_id"]].append(row["during"])
    rows = []
    for life in told.lives:
        stays = sorted(logs[life.job], key=lambda stay: (stay.lower, stay.upper is None))
        assert stays[0].lower.timestamp() == near(life.submitted)
        for previous, state, stay in zip((None, *life.path), life.path, stays, strict=False):
            since, until = stay.lower.timestamp(), stay.upper and stay.upper.timestamp()
            move = moves.get((previous, state), {})
            rows.append({
                "job_id": life.job, "state": state, "previous_state": previous, "event": move.get("event"),
                "who": move.get("who"), "entered_at": near(since), "left_at": near(until),
                "seconds": None if state in ("Terminated", "Error") else near((until or told.now) - since),
            })  # fmt: skip
    return rows


def report_moldable_alternatives(told: Told) -> list[Row]:
    numbers = {
        (row["submission_id"], row["position"]): row["moldable_id"] for row in told.records("moldable_descriptions")
    }
    return [
        {
            "job_id": life.job, "moldable_id": numbers[told.by_job[life.job]["submission_id"], place],
            "alternative": place, "walltime_seconds": asked_for, "request": request,
            "chosen": place == life.chosen and life.walltime is not None,
        }
        for life in told.lives
        for place, (request, asked_for) in enumerate(zip(life.requests, life.walltimes, strict=True))
    ]  # fmt: skip


def report_waiting_jobs(told: Told) -> list[Row]:
    plans = {row["job_id"]: row for row in told.records("gantt_predictions", "public")}
    nothing = {"verdict": None, "reason": "", "start_time": None, "end_time": None}
    rows = []
    for life in told.lives:
        if life.state not in ("Waiting", "Hold", "toAckReservation"):
            continue
        plan = plans.get(life.job, nothing)
        rows.append({
            "job_id": life.job, "user_name": life.user, "project": life.project, "queue_name": life.queue,
            "queue_priority": {"default": 3, "besteffort": 0}[life.queue], "state": life.state,
            "submitted_at": near(life.submitted), "waiting_seconds": near(told.now - life.submitted),
            "verdict": "held" if life.state == "Hold" else plan["verdict"], "reason": plan["reason"],
            "predicted_start": plan["start_time"], "predicted_end": plan["end_time"],
        })  # fmt: skip
    return rows


def planned(told: Told) -> Iterator[tuple[Row, int]]:
    """Predictions, by their resources."""
    for plan in told.records("gantt_predictions", "public"):
        for part in plan["resources"] or ():
            for resource in range(part.lower, part.upper):
                yield plan, resource


def report_predictions(told: Told) -> list[Row]:
    lives = {life.job: life for life in told.lives}
    places = {row["moldable_id"]: row["position"] for row in told.records("moldable_descriptions")}
    return [
        {
            "job_id": plan["job_id"], "user_name": lives[plan["job_id"]].user,
            "queue_name": lives[plan["job_id"]].queue, "alternative": places[plan["moldable_id"]],
            "resource_id": resource, "network_address": node(resource), "predicted_start": plan["start_time"],
            "predicted_end": plan["end_time"],
        }
        for plan, resource in planned(told)
    ]  # fmt: skip


def report_node_state_history(told: Told) -> list[Row]:
    rows = []
    for log in told.records("resource_state_logs", "public"):
        since, until = log["during"].lower.timestamp(), log["during"].upper and log["during"].upper.timestamp()
        rows.append({
            "network_address": node(log["resource_id"]), "resource_id": log["resource_id"], "state": log["state"],
            "state_by": log["state_by"], "entered_at": since, "left_at": until,
            "seconds": near((until or told.now) - since),
        })  # fmt: skip
    return rows


def report_node_absences(told: Told) -> list[Row]:
    rows = [
        {
            "network_address": name, "reason": "", "author": told.world.admin, "away_at": near(begin),
            "back_at": near(end), "seconds": near((end or told.now) - begin),
        }
        for begin, end in told.world.absences
        for name in NODES
    ]  # fmt: skip
    since = told.world.drained_at
    rows.append({
        "network_address": "n4", "reason": "a new disk", "author": told.world.admin, "away_at": near(since),
        "back_at": None, "seconds": near(told.now - since),
    })  # fmt: skip
    return rows


def report_utilisation(told: Told) -> list[Row]:
    first, rows = int(told.world.begin // DAY), []
    spans = sums(told)
    for number in range(first, int(told.now // DAY) + 1):
        begin, end = number * DAY, (number + 1) * DAY
        there = max(min(end, told.now) - max(begin, told.world.begin), 0)
        for away, back in told.world.absences:
            there -= max(min(end, back) - max(begin, away), 0)
        hours = {
            wanted: sum(
                value for (window, _, _, queue, kind), value in spans.items()
                if window == begin and kind == "USED" and (wanted == "all" or queue == wanted)
            ) / 3600
            for wanted in ("all", "besteffort")
        }  # fmt: skip
        capacity = there * COMPUTING / 3600
        rows.append({
            "day": day(begin), "capacity_hours": near(capacity, 0.02), "used_hours": near(hours["all"], 0.02),
            "besteffort_hours": near(hours["besteffort"], 0.02), "utilisation": near(hours["all"] / capacity, 0.001),
        })  # fmt: skip
    return rows


def charged(told: Told) -> dict[tuple[str, str, str], list[float]]:
    """Resource-seconds asked for and used, by source, user and project."""
    (passes,) = told.records("scheduling_passes", "public")
    begin = told.now - passes["karma_window"].total_seconds()
    found: defaultdict[tuple[str, str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for (window, user, project, queue, kind), value in sums(told).items():
        if window >= begin and queue != "besteffort":
            found["accounted", user, project][kind == "USED"] += value
    for life in told.lives:
        if life.ended is None and life.holds and life.queue != "besteffort":
            holder = found["held", life.user, life.project]
            holder[0] += len(computing(life)) * (life.walltime or 0)
            holder[1] += len(computing(life)) * (ran(life, told.now) or 0)
    return found


def report_charges(told: Told) -> list[Row]:
    return [
        {"source": source, "user_name": user, "project": project, "asked_seconds": near(values[0], 20),
         "used_seconds": near(values[1], 20)}
        for (source, user, project), values in charged(told).items()
    ]  # fmt: skip


def report_karma(told: Told) -> list[Row]:
    (passes,) = told.records("scheduling_passes", "public")
    rows = []
    for kind, place in (("user", 1), ("project", 2)):
        of: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for key, values in charged(told).items():
            of[key[place]] = [mine + more for mine, more in zip(of[key[place]], values, strict=True)]
        total = [sum(values[one] for values in of.values()) or 1 for one in (0, 1)]
        targets, others = passes[f"{kind}_targets"], passes[f"other_{kind}s_target"]
        for name, values in of.items():
            aim = targets.get(name, others)
            asked_for, had = values[0] / total[0], values[1] / total[1]
            beyond = passes[f"karma_{kind}"] * (had - aim)
            beyond += passes["karma_asked"] * (asked_for - aim) if kind == "user" else 0
            rows.append({
                "kind": kind, "name": name, "asked_seconds": near(values[0], 20), "used_seconds": near(values[1], 20),
                "asked_share": near(asked_for, 0.001), "used_share": near(had, 0.001), "target": aim,
                "karma": near(beyond, 0.01),
            })  # fmt: skip
    return rows


def report_lost_jobs(told: Told) -> list[Row]:
    at = told.world.restored_at
    return [{
        "job_id": 900, "attempt": 1, "user_name": "rex", "network_address": "n2", "resources": 2,
        "began_at": near(at - 600), "ended_at": near(at - 300), "exit_status": 256, "outcome": "exited",
        "used_seconds": near(600), "known": False, "found_at": near(at),
    }]  # fmt: skip


def report_offers(told: Told) -> list[Row]:
    numbers = defaultdict(list)
    for row in sorted(told.records("reservation_offers"), key=lambda row: row["start_time"]):
        numbers[row["job_id"]].append(row)
    rows = []
    for life in told.lives:
        for start, record in zip(told.world.offered.get(life.job, ()), numbers.pop(life.job, ()), strict=True):
            wanted = life.reservation or 0
            rows.append({
                "offer_id": record["offer_id"], "job_id": life.job, "user_name": life.user, "project": life.project,
                "queue_name": life.queue, "made_at": near(life.ended), "valid_until": near((life.ended or 0) + 300),
                "start_time": near(start), "end_time": near(start + life.walltimes[0]),
                "phi": near(abs(start - wanted) / life.walltimes[0], 0.01), "accepted_job": None, "became_job": False,
            })  # fmt: skip
    assert not numbers
    return rows


def report_prediction_accuracy(told: Told) -> list[Row]:
    groups: defaultdict[tuple[Any, ...], list[tuple[Life, Row]]] = defaultdict(list)
    lives = {life.job: life for life in told.lives}
    for row in told.records("first_predictions"):
        life = lives[row["job_id"]]
        groups[day(row["made_at"]), life.queue].append((life, row))
    rows = []
    for (made, queue), members in groups.items():
        later = [life for life, row in members if life.started and life.started > row["planned_start"] + 0.001]
        assert all(row["earliest_start"] is None for _, row in members), "too few starts to learn from"
        rows.append({
            "day": made, "queue_name": queue, "jobs": len(members), "told": 0, "started": 0, "inside": 0, "earlier": 0,
            "later": 0, "coverage": None, "after_plan": len(later), "mean_width_seconds": None,
            "mean_planned_seconds": None, "mean_wait_seconds": None,
        })  # fmt: skip
    return rows


REPORT: dict[str, tuple[Callable[[Told], list[Row]], tuple[str, ...]]] = {
    "accounting": (report_accounting, ("day", "user_name", "project", "queue_name")),
    "assigned_amounts": (report_assigned_amounts, ("job_id", "block")),
    "assigned_resources": (report_assigned_resources, ("job_id", "resource_id", "assigned_at")),
    "besteffort_waste": (report_besteffort_waste, ("day", "user_name", "project")),
    "charges": (report_charges, ("source", "user_name", "project")),
    "consumables": (report_consumables, ("block",)),
    "daily_jobs": (report_daily_jobs, ("day", "user_name", "project", "queue_name")),
    "efficiency": (report_efficiency, ("job_id",)),
    "failures": (report_failures, ("job_id", "network_address")),
    "job_state_history": (report_job_state_history, ("job_id", "entered_at")),
    "job_types": (report_job_types, ("job_id", "type")),
    "jobs": (report_jobs, ("job_id",)),
    "karma": (report_karma, ("kind", "name")),
    "lost_jobs": (report_lost_jobs, ("job_id",)),
    "moldable_alternatives": (report_moldable_alternatives, ("job_id", "alternative")),
    "node_absences": (report_node_absences, ("network_address", "away_at")),
    "node_state_history": (report_node_state_history, ("resource_id", "entered_at")),
    "offers": (report_offers, ("offer_id",)),
    "prediction_accuracy": (report_prediction_accuracy, ("day", "queue_name")),
    "predictions": (report_predictions, ("job_id", "resource_id")),
    "utilisation": (report_utilisation, ("day",)),
    "waiting_jobs": (report_waiting_jobs, ("job_id",)),
}


@pytest.fixture(scope="module")
def told(server: str) -> Iterator[Told]:
    """Jobs of every kind twice, the first of them in the past, and some that are not over."""
    clock = Clock()
    with virtual_time.template(server) as template, virtual_time.database(server, template) as dsn:
        with clock.rules():
            world = EveryKind(Database(dsn), clock)
            world.make()
            world.file_away()
            world.make()
            world.restored()
            world.present()
        yield Told(world, clock.time())
        world.cluster.close()
        world.connection.close()


def shown(told: Told, schema: str, view: str) -> list[Row]:
    """The rows of a view."""
    statement = SQL("SELECT * FROM {}").format(Identifier(schema, view))
    with told.world.connection.cursor(row_factory=dict_row) as cursor:
        return [plain(row) for row in cursor.execute(statement).fetchall()]


def differences(
    told: Told, schema: str, view: str, expect: Callable[[Told], list[Row]], keys: tuple[str, ...]
) -> list[str]:
    """What is in a view and should not be, or the other way round."""
    real, expected = shown(told, schema, view), expect(told)
    (columns,) = [
        {one.name for one in found.columns} for found in describe(told.world.connection, schema) if found.name == view
    ]

    def key(row: Row) -> tuple[str, ...]:
        return tuple(
            text(round(value)) if isinstance(value := getattr(row[one], "expected", row[one]), float) else text(value)
            for one in keys
        )

    wrong = []
    kinds = {life.job: life.kind for life in told.lives}
    left = sorted(real, key=key)
    right = sorted(expected, key=key)
    if Counter(map(key, left)) != Counter(map(key, right)):
        extra = Counter(map(key, left)) - Counter(map(key, right))
        missing = Counter(map(key, right)) - Counter(map(key, left))
        wrong.append(f"{view}: too many {sorted(extra)[:5]}, not there {sorted(missing)[:5]}")
        return wrong
    for row, should in zip(left, right, strict=True):
        assert row.keys() == should.keys() == columns, f"{view}: {row.keys() ^ should.keys()}"
        wrong += [
            f"{view}.{name} of {key(row)} {kinds.get(row.get('job_id', 0))}: {row[name]!r} instead of {should[name]!r}"
            for name in row
            if row[name] != should[name]
        ]
    return wrong


def test_states_are_those_that_the_jobs_went_through(told: Told) -> None:
    logs = defaultdict(list)
    for row in told.records("job_state_logs"):
        logs[row["job_id"]].append((row["during"].lower, row["during"].upper is None, row["state"]))
    wrong = {
        life.kind: (states, life.path)
        for life in told.lives
        if (states := tuple(state for *_, state in sorted(logs[life.job]))) != life.path
    }
    assert wrong == {}, wrong
    assert any(life.filed for life in told.lives)


def test_every_view_is_looked_at() -> None:
    assert list(REPORT) == list(statements.names("views"))
    assert list(COMPAT) == list(statements.names("compat"))


@pytest.mark.parametrize("view", REPORT)
def test_report(told: Told, view: str) -> None:
    expect, keys = REPORT[view]
    if wrong := differences(told, "oar_report", view, expect, keys):
        pytest.fail("\n".join(wrong), pytrace=False)


# oar_compat: of live tables alone


def compat_accounting(told: Told) -> list[Row]:
    return [
        {"window_start": window, "window_stop": window + DAY, "accounting_user": user, "accounting_project": project,
         "queue_name": queue, "consumption_type": kind, "consumption": near(value, 20)}
        for (window, user, project, queue, kind), value in sums(told).items()
    ]  # fmt: skip


def index(life: Life) -> str:
    """The word for what is over."""
    return "CURRENT" if life.ended is None else "LOG"


def alternatives(told: Told) -> list[tuple[int, Life, int]]:
    """Numbers of alternatives: the job's own for the one that it has, or is to have; what is over has only that."""
    plans = {row["job_id"]: row["moldable_id"] for row in told.records("gantt_predictions", "public")}
    places = {row["moldable_id"]: row["position"] for row in told.records("moldable_descriptions")}
    rows = []
    for life in told.live_tables:
        first = life.chosen if life.walltime is not None else places.get(plans.get(life.job), 0)
        rows.append((life.job, life, first or 0))
        others = [place for place in range(len(life.requests)) if place != first] if life.ended is None else []
        rows += [(-(life.job * 1000 + place), life, place) for place in others]
    return rows


def numbers(told: Told) -> dict[tuple[int, int], int]:
    """The numbers of alternatives in oarpy, by submission and place."""
    return {
        (row["submission_id"], row["position"]): row["moldable_id"] for row in told.records("moldable_descriptions")
    }


def walltime_of(life: Life, place: int, number: int) -> int:
    """The walltime of an alternative."""
    return life.walltimes[place] if life.walltime is None or number < 0 else life.walltime


def compat_alternatives(told: Told) -> list[Row]:
    known = numbers(told)
    return [
        {"number": number, "job_id": life.job, "index": index(life),
         "moldable_id": known[told.by_job[life.job]["submission_id"], place],
         "walltime": timedelta(seconds=walltime_of(life, place, number))}
        for number, life, place in alternatives(told)
    ]  # fmt: skip


def compat_moldable_job_descriptions(told: Told) -> list[Row]:
    return [
        {"moldable_id": number, "moldable_job_id": life.job, "moldable_index": index(life),
         "moldable_walltime": walltime_of(life, place, number)}
        for number, life, place in alternatives(told)
    ]  # fmt: skip


def parts(request: str) -> list[tuple[str, list[tuple[str, int]]]]:
    """The parts of a request: condition, and levels with counts."""
    found = []
    for part in request.split(",")[0].split("+"):
        condition, _, levels = part.rpartition("}")
        pairs = [level.split("=") for level in levels.strip("/").split("/")]
        found.append((condition.lstrip("{"), [(name, int(count)) for name, count in pairs]))
    return found


def groups(told: Told) -> dict[tuple[int, int], int]:
    """Numbers of the parts of alternatives, by alternative and place."""
    return {(row["moldable_id"], row["position"]): row["group_id"] for row in told.records("resource_groups", "public")}


def compat_job_resource_groups(told: Told) -> list[Row]:
    known, of = numbers(told), groups(told)
    return [
        {"res_group_id": of[known[told.by_job[life.job]["submission_id"], place], position],
         "res_group_moldable_id": number, "res_group_property": condition, "res_group_index": index(life)}
        for number, life, place in alternatives(told)
        for position, (condition, _) in enumerate(parts(life.requests[place]))
    ]  # fmt: skip


def compat_job_resource_descriptions(told: Told) -> list[Row]:
    known, of = numbers(told), groups(told)
    rows = {}
    for life in told.live_tables:
        for place, request in enumerate(life.requests):
            for position, (_, levels) in enumerate(parts(request)):
                group = of[known[told.by_job[life.job]["submission_id"], place], position]
                for order, (level, count) in enumerate(levels):
                    rows[group, order] = {
                        "res_job_group_id": group, "res_job_resource_type": level, "res_job_value": count,
                        "res_job_order": order, "res_job_index": "CURRENT",
                    }  # fmt: skip
    return list(rows.values())


def compat_assigned_resources(told: Told) -> list[Row]:
    return [
        {"moldable_job_id": life.job, "resource_id": resource,
         "assigned_resource_index": "LOG" if life.ended is not None or resource in given_back(life) else "CURRENT"}
        for life in told.live_tables
        for resource in life.holds
    ]  # fmt: skip


def given_back(life: Life) -> set[int]:
    """What a job gave back while it ran, for good."""
    if life.still_since is not None:
        return set()
    return {resource for resource, stretches in life.holds.items() if stretches[-1][1] is not None}


def compat_event_logs(told: Told) -> list[Row]:
    return [
        {"event_id": row["event_id"], "type": row["type"], "job_id": row["job_id"] or 0, "date": int(row["at"]),
         "description": row["description"][:255], "to_check": "NO"}
        for row in told.records("event_logs", "public")
    ]  # fmt: skip


def compat_event_log_hostnames(told: Told) -> list[Row]:
    return [
        {"event_id": row["event_id"], "hostname": host}
        for row in told.records("event_logs", "public")
        for host in row["hosts"]
    ]


def compat_frag_jobs(told: Told) -> list[Row]:
    asked_at = {row["job_id"]: row["requested_at"] for row in told.records("kill_requests", "public")}
    killed = ("oardel", "BESTEFFORT_KILL", "asked")
    rows = []
    for life in told.live_tables:
        if life.cause in killed:
            state = "LEON" if life.ended is None else "FRAGGED"
            rows.append({"frag_id_job": life.job, "frag_date": int(asked_at[life.job]), "frag_state": state})
            assert life.ended is None or asked_at[life.job] == near(life.ended)
    return rows


def drawn(told: Told) -> list[tuple[int, Any]]:
    """When what runs began, and what is planned will."""
    rows = [
        (life.job, near(life.started)) for life in told.lives
        if life.state in ("Running", "Suspended")
    ]  # fmt: skip
    plans = told.records("gantt_predictions", "public")
    (last,) = told.records("scheduling_passes", "public")
    return [
        *rows,
        *((plan["job_id"], int(plan["start_time"])) for plan in plans if plan["start_time"] is not None),
        (0, int(last["at"])),
    ]


def compat_gantt_jobs_predictions(told: Told) -> list[Row]:
    return [{"moldable_job_id": job, "start_time": start} for job, start in drawn(told)]


def compat_gantt_jobs_resources(told: Told) -> list[Row]:
    held = [
        (life.job, resource) for life in told.lives if life.ended is None
        for resource in life.holds if resource not in given_back(life)
    ]  # fmt: skip
    coming = [(plan["job_id"], resource) for plan, resource in planned(told) if plan["start_time"] is not None]
    return [{"moldable_job_id": job, "resource_id": resource} for job, resource in held + coming]


def compat_job_dependencies(told: Told) -> list[Row]:
    return [
        {"job_id": life.job, "job_id_required": int(one.removeprefix("ok:")), "job_dependency_index": index(life)}
        for life in told.live_tables
        for one in life.given.get("dependencies", ())
    ]


def compat_job_state_logs(told: Told) -> list[Row]:
    rows = []
    filed = {life.job for life in told.lives if life.filed}
    for row in report_job_state_history(told):
        if row["job_id"] not in filed:
            final = row["state"] in ("Terminated", "Error")
            rows.append({
                "job_state_log_id": None, "job_id": row["job_id"], "job_state": row["state"],
                "date_start": row["entered_at"], "date_stop": 0 if final or row["left_at"] is None else row["left_at"],
            })  # fmt: skip
    return rows


def compat_job_types(told: Told) -> list[Row]:
    return [
        {"job_type_id": None, "job_id": life.job, "type": word, "types_index": index(life)}
        for life in told.live_tables
        for word in life.types
    ]


def compat_jobs(told: Told) -> list[Row]:
    rows = []
    for life in told.live_tables:
        began = life.started
        if began is None and life.holds:
            began = next(iter(life.holds.values()))[0][0]
        if began is None:
            began = life.reservation
        ended = None if life.ended is None else max(life.ended, began or 0)
        rows.append({
            "job_id": life.job, "array_id": life.array, "array_index": life.index,
            "initial_request": "oarsub" + "".join(f" -t {word}" for word in life.types),
            "job_name": life.given.get("name", ""), "job_env": None,
            "job_type": "INTERACTIVE" if "interactive" in life.given else "PASSIVE", "info_type": "",
            "state": life.state, "reservation": life.answer or "None", "message": told.by_job[life.job]["message"],
            "scheduler_info": "", "job_user": life.user, "project": life.project, "job_group": "", "command": "",
            "exit_code": life.status, "queue_name": life.queue, "properties": "", "launching_directory": "",
            "submission_time": epoch(life.submitted), "start_time": epoch(began), "stop_time": epoch(ended),
            "file_id": None, "accounted": yes(told.by_job[life.job]["accounted"]), "notify": "",
            "assigned_moldable_job": life.job if life.walltime is not None else 0,
            "checkpoint": life.given.get("checkpoint", 0), "checkpoint_signal": 12, "stdout_file": "",
            "stderr_file": "", "resubmit_job_id": life.copy_of or 0,
            "suspended": yes(life.still or life.still_since),
        })  # fmt: skip
    return rows


def compat_queues(told: Told) -> list[Row]:
    names = {"admin": 10, "default": 3, "besteffort": 0}
    assert names.keys() == {row["queue_name"] for row in told.records("queues", "public")}
    return [
        {"queue_name": name, "priority": priority, "scheduler_policy": "fifo", "state": "Active"}
        for name, priority in names.items()
    ]


def compat_resource_logs(told: Told) -> list[Row]:
    return [
        {"resource_log_id": None, "resource_id": row["resource_id"], "attribute": "state", "value": row["state"],
         "date_start": int(row["entered_at"]), "date_stop": int(row["left_at"] or 0), "finaud_decision": "NO"}
        for row in report_node_state_history(told)
    ]  # fmt: skip


def compat_resources(told: Told) -> list[Row]:
    suspended = {one for life in told.lives if life.still_since for one in life.holds}
    return [
        {
            "resource_id": one, "type": "default" if node(one) else "licence", "network_address": node(one) or "",
            "state": "Alive", "next_state": "UnChanged", "finaud_decision": "NO", "next_finaud_decision": "NO",
            "state_num": 1, "suspended_jobs": yes(one in suspended), "scheduler_priority": 0, "cpuset": "0",
            "besteffort": "YES", "deploy": "NO", "expiry_date": 0, "desktop_computing": "NO", "last_job_date": 0,
            "available_upto": 2147483647, "last_available_upto": 0, "drain": yes(node(one) == "n4"), "host": node(one),
            "cpu": (one + 1) // CORES if node(one) else None,
            "core": (one + 1) // CORES * 100 + (one - 1) % CORES + 1 if node(one) else None,
        }
        for one in range(1, COMPUTING + LICENCES + 1)
    ]  # fmt: skip


def compat_schema(told: Told) -> list[Row]:
    return [{"version": "2.5.9", "name": "oarpy"}]


def compat_walltime_change(told: Told) -> list[Row]:
    rows = []
    for life in told.live_tables:
        if life.more_asked is not None:
            granted = (life.walltime or 0) - life.walltimes[0]
            rows.append({
                "job_id": life.job, "pending": life.more_asked - granted, "force": "NO", "delay_next_jobs": "NO",
                "granted": granted, "granted_with_force": 0, "granted_with_delay_next_jobs": 0,
            })  # fmt: skip
    return rows


COMPAT: dict[str, tuple[Callable[[Told], list[Row]], tuple[str, ...]]] = {
    "accounting": (
        compat_accounting,
        ("window_start", "accounting_user", "accounting_project", "queue_name", "consumption_type"),
    ),
    "alternatives": (compat_alternatives, ("number",)),
    "assigned_resources": (compat_assigned_resources, ("moldable_job_id", "resource_id")),
    "event_log_hostnames": (compat_event_log_hostnames, ("event_id", "hostname")),
    "event_logs": (compat_event_logs, ("event_id",)),
    "frag_jobs": (compat_frag_jobs, ("frag_id_job",)),
    "gantt_jobs_predictions": (compat_gantt_jobs_predictions, ("moldable_job_id",)),
    "gantt_jobs_predictions_visu": (compat_gantt_jobs_predictions, ("moldable_job_id",)),
    "gantt_jobs_resources": (compat_gantt_jobs_resources, ("moldable_job_id", "resource_id")),
    "gantt_jobs_resources_visu": (compat_gantt_jobs_resources, ("moldable_job_id", "resource_id")),
    "job_dependencies": (compat_job_dependencies, ("job_id", "job_id_required")),
    "job_resource_descriptions": (compat_job_resource_descriptions, ("res_job_group_id", "res_job_order")),
    "job_resource_groups": (compat_job_resource_groups, ("res_group_moldable_id", "res_group_id")),
    "job_state_logs": (compat_job_state_logs, ("job_id", "job_state", "date_start")),
    "job_types": (compat_job_types, ("job_id", "type")),
    "jobs": (compat_jobs, ("job_id",)),
    "moldable_job_descriptions": (compat_moldable_job_descriptions, ("moldable_id",)),
    "queues": (compat_queues, ("queue_name",)),
    "resource_logs": (compat_resource_logs, ("resource_id", "date_start", "value")),
    "resources": (compat_resources, ("resource_id",)),
    "schema": (compat_schema, ("version",)),
    "walltime_change": (compat_walltime_change, ("job_id",)),
}  # fmt: skip


@pytest.mark.parametrize("view", COMPAT)
def test_compat(told: Told, view: str) -> None:
    expect, keys = COMPAT[view]
    if wrong := differences(told, "oar_compat", view, expect, keys):
        pytest.fail("\n".join(wrong), pytrace=False)
