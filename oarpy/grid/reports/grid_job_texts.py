"""The texts of ``oargridstat``. Programs read some of these lines, so they stay as they are; others may follow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from oarpy.client.rendering import JsonValue, ids_text, local_date, one_line
from oarpy.client.submission.report import completion_lines
from oarpy.grid.reports.grid_job_views import GridJobView
from oarpy.model.durations import format_duration
from oarpy.store.grid.bags import GridBagRow, TaskRow
from oarpy.store.grid.broker_jobs import GridComponentRow
from oarpy.store.grid.broker_parts import GridPartRow
from oarpy.store.grid.metajobs import MetajobRow


def listing(shown: Iterable[GridJobView]) -> str:
    """Return a line for each job."""
    return "".join(f"{_heading(view)} {_summary(view)}\n" for view in shown)


def description(view: GridJobView) -> str:
    """Return all facts of a job; each part has a line ``TAB cluster --> job``."""
    job = view.job
    facts = {
        "state": job.state.value,
        "message": one_line(job.message),
        "user": job.user,
        "name": job.job_name,
        "submission date": local_date(job.submitted),
        "start date": local_date(view.start) or "not known yet",
        "end date": local_date(job.ended),
        "exit status": "" if job.exit_status is None else str(job.exit_status),
        "walltime": format_duration(view.walltime),
        "program": one_line(job.program),
        "directory": one_line(job.directory or ""),
        "queue": job.queue,
        "project": job.project,
        "array": "" if job.array_id is None else f"{job.array_id}, {job.array_index}",
        **_promises(view.metajob),
        **_of_bag(view),
    }
    lines = [_heading(view), *(f"  {name} : {value}" for name, value in facts.items() if value)]
    lines += [f"  component {component.number} : {_asked(component)}" for component in view.components]
    there = [part for part in view.parts if part and part.cluster_job]
    lines += [f"  job {part.cluster_job} on {part.cluster} : {_fate(part)}" for part in there]
    lines += ["  jobs on clusters :", *(f"\t{part.cluster} --> {part.cluster_job}" for part in there)]
    return "\n".join(lines) + "\n"


def hosts(view: GridJobView) -> str:
    """Return the names of a job's hosts alone, one a line."""
    return ids_text(view.hosts)


def record(view: GridJobView) -> dict[str, JsonValue]:
    """Return a job for programs; dates are epoch seconds, durations seconds."""
    job = view.job
    return {
        "id": job.id,
        "user": job.user,
        "kind": job.kind,
        "state": job.state.value,
        "message": job.message,
        "name": job.job_name,
        "array_id": job.array_id,
        "array_index": job.array_index,
        "submitted": job.submitted,
        "deadline": job.deadline,
        "start": view.start,
        "started": job.started,
        "ended": job.ended,
        "exit_status": job.exit_status,
        "delete_asked": job.delete_asked,
        "walltime": view.walltime,
        "program": job.program,
        "directory": job.directory,
        "queue": job.queue,
        "project": job.project,
        "notify": job.notify,
        "lp": job.lp,
        "tries": job.tries,
        "wait": job.wait,
        "metajob": None if view.metajob is None else _metajob(view.metajob),
        "bag": None if view.bag is None else _bag(view, view.bag),
        "components": [
            _component(component, part) for component, part in zip(view.components, view.parts, strict=True)
        ],
    }


def promise_lines(row: GridBagRow) -> list[str]:
    """Return by when a bag is done, and how that is to its deadline."""
    warnings = [f"Warning: {text}" for text in row.missing]
    return [*completion_lines(row.promise, row.deadline), *warnings]


def _of_bag(view: GridJobView) -> dict[str, str]:
    """Return the facts of a bag; none of another job."""
    if (row := view.bag) is None:
        return {}
    states = ", ".join(f"{count} {state}" for state, count in sorted(_states(view.tasks).items()))
    done = "completion" if view.job.ended is not None else "expected completion"
    return {
        "tasks": f"{row.tasks} ({states})" if states else str(row.tasks),
        "deadline": local_date(row.deadline) + (" (strict)" if row.strict else ""),
        "policy": row.policy if row.used_policy in ("", row.policy) else f"{row.policy}, used {row.used_policy}",
        "profile": "; ".join(_profile_words(row)),
        "promised completion": local_date(row.promise) or "not yet",
        done: local_date(view.job.ended if view.job.ended is not None else row.expected),
    }


def _profile_words(row: GridBagRow) -> list[str]:
    """Return how long a task takes on each cluster, and where that is not known."""
    if row.profile and row.profiled is None:
        return [f"{one_line(row.profile)} is being taken"]
    known = (
        f"{cluster}: " + ", ".join(f"{seconds:.4g} s on nodes of type {kind}" for kind, seconds in kinds.items())
        for cluster, kinds in row.seconds.items()
        if kinds
    )
    return [*known, *map(one_line, row.missing)]


def _states(tasks: Iterable[TaskRow]) -> Counter[str]:
    return Counter(task.state for task in tasks)


def _bag(view: GridJobView, row: GridBagRow) -> dict[str, JsonValue]:
    """Return a bag for programs; instants are epoch seconds. ``failed`` and ``lost`` are numbers of tasks."""
    return {
        "tasks": row.tasks,
        "states": dict(sorted(_states(view.tasks).items())),
        "failed": [task.task for task in view.tasks if task.state == "Failed"],
        "lost": [task.task for task in view.tasks if task.state == "Lost"],
        "deadline": row.deadline,
        "strict": row.strict,
        "policy": row.policy,
        "used_policy": row.used_policy,
        "promise": row.promise,
        "expected": row.expected,
        "meets": row.meets,
        "told": dict(row.told),
        "profile": None if not row.profile else {"seconds": dict(row.seconds), "missing": list(row.missing)},
    }


def _promises(row: MetajobRow | None) -> dict[str, str]:
    """Return the facts of a job over clusters that the broker chooses; empty for any other job."""
    if row is None:
        return {}
    at_most = ", ".join(f"{cluster}={procs}" for cluster, procs in row.at_most.items())
    return {
        "promised start": local_date(row.promised_start) or "not known yet",
        "promised end": local_date(row.promised_end),
        "expected end": local_date(row.end),
        "operation": row.operation,
        "overhead": f"{row.overhead:.0%}",
        "at most": at_most,
        "until": local_date(row.end_by),
    }


def _metajob(row: MetajobRow) -> JsonValue:
    return {
        "promised_start": row.promised_start,
        "promised_end": row.promised_end,
        "end": row.end,
        "operation": row.operation,
        "overhead": row.overhead,
        "at_most": dict(row.at_most),
        "end_by": row.end_by,
        "told": dict(row.told),
    }


def _heading(view: GridJobView) -> str:
    return f"Reservation # {view.job.id}:"


def _summary(view: GridJobView) -> str:
    where = f" on {' '.join(view.clusters)}" if view.clusters else ""
    when = f", start {local_date(view.start)}" if view.start is not None else ""
    leaving = ", to be deleted" if view.job.delete_asked is not None and view.job.ended is None else ""
    return f"{view.job.state.value}{where}{when}, walltime {format_duration(view.walltime)}{leaving}"


def _asked(row: GridComponentRow) -> str:
    words = [row.resources, f"on {row.cluster}" if row.cluster else "", row.properties and f"where {row.properties}"]
    words += [f"type {kind}" for kind in row.types] + [row.name and f"named {row.name}"]
    return one_line(", ".join(filter(None, words)))


def _fate(part: GridPartRow) -> str:
    status = "" if part.exit_status is None else f" with status {part.exit_status}"
    message = f": {one_line(part.message)}" if part.message else ""
    return f"{part.state.value}{status}{message}"


def _component(row: GridComponentRow, part: GridPartRow | None) -> JsonValue:
    return {
        "number": row.number,
        "cluster": row.cluster,
        "resources": row.resources,
        "procs": row.procs,
        "properties": row.properties,
        "types": list(row.types),
        "name": row.name,
        "part": None if part is None else _part(part),
    }


def _part(part: GridPartRow) -> JsonValue:
    return {
        "name": part.name,
        "cluster": part.cluster,
        "job": part.cluster_job,
        "kind": part.kind,
        "state": part.state.value,
        "walltime": part.walltime,
        "hosts": list(part.hosts),
        "started": part.started,
        "ended": part.ended,
        "exit_status": part.exit_status,
        "message": part.message,
    }
