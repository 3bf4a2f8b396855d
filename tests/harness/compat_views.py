"""What each view of ``oar_compat`` should show, which has live tables alone, worked out in Python."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from tests.harness.every_kind import CORES, DAY, LICENCES, Life
from tests.harness.known_lives import COMPUTING, Row, Told, epoch, near, node, yes
from tests.harness.report_views import planned, report_job_state_history, report_node_state_history, sums


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
