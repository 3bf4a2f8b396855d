"""What each view of ``oar_report`` should show, worked out in Python."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from tests.harness.every_kind import DAY, LOOK, MEMORY, NODES, Life
from tests.harness.known_lives import COMPUTING, Row, Told, asked, computing, day, near, node, nodes, ran, still, used


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
            "suspended_seconds": near(still(life, told.now)), "gpus": None, "gpu_hours": None,
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
            "asked_gpu_hours": 0.0, "used_gpu_hours": 0.0,
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
        look = told.world.looks.get(life.job)
        rows.append({
            "job_id": life.job, "array_id": life.array, "job_name": life.given.get("name", ""),
            "user_name": life.user, "project": life.project, "queue_name": life.queue, "state": life.state,
            "started_at": near(life.started), "ended_at": near(life.ended), "nodes": len(nodes(life)),
            "cores": len(computing(life)), "run_seconds": near(run), "walltime_seconds": life.walltime,
            "core_seconds": near(used(life, 0), 5), "cpu_seconds": seconds,
            "cpu_efficiency": near(seconds / used(life, 0), 0.01), "memory_peak_bytes": peak_of,
            "memory_asked_bytes": memory, "memory_efficiency": near(peak_of / memory if memory else None, 0.01),
            "gpus": look and look.gpus, "gpu_seconds": near(look.measured * LOOK if look else None),
            "gpu_busy_seconds": near(look.busy * LOOK if look else None),
            "gpu_efficiency": near(look.busy / look.measured if look else None),
            "gpu_memory_peak_bytes": look and look.most, "gpu_memory_bytes": look and look.total,
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


def report_promises(told: Told) -> list[Row]:
    rows = []
    for bag in told.world.promised.values():
        end, refused = bag["completed"] or bag["promise"], bag["refused"]
        rows.append({
            **bag, "user_name": "bob",
            "submitted_at": near(bag["submitted_at"]), "promised_at": None if refused else near(bag["submitted_at"]),
            "promised": near(bag["promised"]), "promise": near(bag["promise"]), "completed": near(bag["completed"]),
            "improved_seconds": None if refused else near(bag["promised"] - end, 2),
        })  # fmt: skip
    return rows


def report_run_accuracy(told: Told) -> list[Row]:
    groups: defaultdict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for life in told.lives:
        if (seconds := told.world.predicted.get(life.job)) is not None:
            groups[life.user].append((seconds, (life.ended or 0) - (life.started or 0), life.walltime or 0))
    rows = []
    for user, jobs in groups.items():
        predicted, real, walltimes = (sum(values) / len(jobs) for values in zip(*jobs, strict=True))
        near_by = sum(min(seconds, run) / max(seconds, run) for seconds, run, _ in jobs) / len(jobs)
        rows.append({
            "user_name": user, "predictor": "last2", "jobs": len(jobs),
            "outlived": sum(run > seconds for seconds, run, _ in jobs), "mean_predicted_seconds": near(predicted),
            "mean_run_seconds": near(real), "mean_walltime_seconds": near(walltimes),
            "mean_accuracy": near(near_by, 0.01),
        })  # fmt: skip
    return rows


def report_mapping_accuracy(told: Told) -> list[Row]:
    jobs = [
        (told.world.mapped[life.job], (life.ended or 0) - (life.started or 0))
        for life in told.lives
        if life.job in told.world.mapped
    ]
    return [
        {
            "program": "/p", "node_types": "fast+slow", "jobs": len(jobs),
            "outlived": sum(run > seconds for seconds, run in jobs),
            "mean_predicted_seconds": near(sum(seconds for seconds, _ in jobs) / len(jobs)),
            "mean_run_seconds": near(sum(run for _, run in jobs) / len(jobs)),
            "mean_error": near(sum(abs(seconds - run) / run for seconds, run in jobs) / len(jobs), 0.01),
        }
    ] if jobs else []  # fmt: skip


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


def report_projects(told: Told) -> list[Row]:
    """Of the projects that ``test_every_view`` makes: all, and below it those of the jobs, p1 with a weight of 2."""
    of: dict[str, list[float]] = {"default": [0, 0, 0], "p1": [0, 0, 0]}
    for (_, _, project, queue, kind), value in sums(told).items():
        if kind == "USED" and queue != "besteffort" and project in of:
            of[project][0] += value / 3600
    for life in told.lives:
        if life.queue == "besteffort" or life.project not in of:
            continue
        if life.ended is not None and life.started is not None and not told.by_job[life.job]["accounted"]:
            # not counted yet: taken for all that it had, as long as it ran
            of[life.project][0] += len(computing(life)) * max(life.ended - life.started, 0) / 3600
        if life.ended is None:
            if told.by_job[life.job]["state"] in ("Waiting", "Hold", "toAckReservation"):
                of[life.project][2] += 2
            elif life.holds:
                of[life.project][1] += len(computing(life)) * (life.walltime or 0) / 3600
    of["p1"][:2] = [2 * hours for hours in of["p1"][:2]]
    of["all"] = [sum(pair) for pair in zip(of["default"], of["p1"], strict=True)]
    hours = {"all": None, "default": 1e9, "p1": 0.5}
    return [
        {
            "project": name, "parent": None if name == "all" else "all", "share": 1.0,
            "weight": 2.0 if name == "p1" else 1.0, "hours": hours[name], "period": "ever", "period_begin": None,
            "period_end": None, "until": None, "when_spent": "refuse", "used_hours": near(used, 0.1),
            "held_hours": near(held, 0.1), "asked_hours": asked_for,
            "left_hours": near(None if (most := hours[name]) is None else most - used - held - asked_for, 0.2),
            "spent_at": near(told.now if name == "p1" else None, 3600),
        }
        for name, (used, held, asked_for) in of.items()
    ]  # fmt: skip


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
    "mapping_accuracy": (report_mapping_accuracy, ("program", "node_types")),
    "moldable_alternatives": (report_moldable_alternatives, ("job_id", "alternative")),
    "node_absences": (report_node_absences, ("network_address", "away_at")),
    "node_state_history": (report_node_state_history, ("resource_id", "entered_at")),
    "offers": (report_offers, ("offer_id",)),
    "prediction_accuracy": (report_prediction_accuracy, ("day", "queue_name")),
    "predictions": (report_predictions, ("job_id", "resource_id")),
    "projects": (report_projects, ("project",)),
    "promises": (report_promises, ("bag_id",)),
    "run_accuracy": (report_run_accuracy, ("user_name", "predictor")),
    "utilisation": (report_utilisation, ("day",)),
    "waiting_jobs": (report_waiting_jobs, ("job_id",)),
}
