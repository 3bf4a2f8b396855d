"""Why a grid job is as it is: where it waits, when it would end elsewhere, which tries were made."""

from __future__ import annotations

from dataclasses import dataclass

from oarpy.client.rendering import JsonValue, local_date, one_line
from oarpy.grid.reports import grid_job_texts, grid_moves
from oarpy.grid.reports.grid_job_views import GridJobView
from oarpy.grid.submission.expected_ends import ExpectedEnd
from oarpy.model.states import GridPartState
from oarpy.store.database import Connection
from oarpy.store.grid import metajobs, placing_tries, reallocation_passes
from oarpy.store.grid.bags import GridBagRow
from oarpy.store.grid.broker_parts import GridPartRow
from oarpy.store.grid.metajobs import ShiftRow
from oarpy.store.grid.placing_tries import GridTryRow
from oarpy.store.grid.programs import GridProgramRow
from oarpy.store.grid.reallocation_passes import GridMoveRow

_WAITS = frozenset({GridPartState.WAITING, GridPartState.FREEZING, GridPartState.FROZEN})


@dataclass(frozen=True, slots=True)
class GridJobExplanation:
    """A job with its tries, its moves, and when it would end on each cluster, if it was asked.

    ``shifts`` are its moves over several clusters.
    """

    view: GridJobView
    tries: tuple[GridTryRow, ...]
    moves: tuple[GridMoveRow, ...]
    ends: tuple[ExpectedEnd, ...] = ()
    shifts: tuple[ShiftRow, ...] = ()

    def text(self) -> str:
        """Return it for people."""
        job = self.view.job
        lines = [grid_job_texts.listing([self.view]).rstrip("\n")]
        if job.message:
            lines.append(f"  {one_line(job.message)}")
        waiting = [part for part in self.view.parts if part and part.state in _WAITS]
        lines += [f"  {_place(part)} {part.cluster}, as job {part.cluster_job} there" for part in waiting]
        if not self.view.clusters and job.ended is None and job.kind == "mapped":
            lines.append("  no cluster has taken it yet")
        lines += _map_lines(self.view.program)
        request = self.view.metajob or self.view.bag
        answers = {} if request is None else request.told
        if self.view.bag is not None and self.view.bag.used_policy:
            lines += _bag_lines(self.view.bag)
        lines += [f"  when it was placed, {cluster} : {one_line(words)}" for cluster, words in answers.items()]
        lines += [f"  {_end_line(end)}" for end in self.ends]
        lines += [f"  {_try_line(placing_try)}" for placing_try in self.tries]
        lines += [f"  moved: {grid_moves.line(move)}" for move in self.moves]
        lines += [f"  moved: {grid_moves.shift_line(shift)}" for shift in self.shifts]
        if job.delete_asked is not None:
            lines.append(f"  {job.delete_by} asked for its deletion at {local_date(job.delete_asked)}")
        return "\n".join(lines) + "\n"

    def data(self) -> dict[str, JsonValue]:
        """Return it for programs; dates are epoch seconds, ``end`` null: never, or not known if there is an error."""
        return {
            **grid_job_texts.record(self.view),
            "ends": [end_record(end) for end in self.ends],
            "all_tries": [_try_record(placing_try) for placing_try in self.tries],
            "moves": [
                *map(grid_moves.record, self.moves),
                *map(grid_moves.shift_record, self.shifts),
            ],
        }


def standing(connection: Connection, view: GridJobView, ends: tuple[ExpectedEnd, ...] = ()) -> GridJobExplanation:
    """Return the explanation of a job."""
    tries = placing_tries.of_jobs(connection, [view.job.id])
    moves = reallocation_passes.moves_of_jobs(connection, [view.job.id])
    shifts = metajobs.shifts_of(connection, [view.job.id])
    return GridJobExplanation(view, tuple(tries), tuple(moves), ends, tuple(shifts))


def end_record(end: ExpectedEnd) -> dict[str, JsonValue]:
    """Return for programs when a job would end on a cluster."""
    return {"cluster": end.cluster, "end": end.end, "idle": end.idle, "error": end.error}


def _bag_lines(row: GridBagRow) -> list[str]:
    """Say by what the tasks of a bag were shared out, and what was missing for its policy and its profile."""
    fell_back = ""
    if row.used_policy != row.policy:
        late = row.used_policy == "nolb"
        fell_back = ", since its deadline cannot be met" if late else f": clusters told too little for {row.policy}"
    return [
        f"  its tasks were shared out by {row.used_policy}{fell_back}",
        *(f"  {one_line(text)}" for text in row.missing),
    ]


def _map_lines(row: GridProgramRow | None) -> list[str]:
    """Say where the processes of a program are, if they are mapped."""
    if row is None or row.map is None:
        return []
    cores = (
        f"{cluster}: " + ", ".join(f"{count} of type {kind}" for kind, count in kinds.items())
        for cluster, kinds in row.map["cores"].items()
    )
    return [f"  its processes are mapped to cores: {'; '.join(cores)}. Predicted: {row.map['seconds']:.0f} s"]


def _place(part: GridPartRow) -> str:
    """Return how a part waits: in a queue, or with processors that it holds already."""
    return "waits on" if part.kind == "queued" else "has its processors, to start at its date, on"


def _end_line(end: ExpectedEnd) -> str:
    if end.error:
        return f"on {end.cluster} : {one_line(end.error)}"
    return f"on {end.cluster} : expected end {local_date(end.end) or 'never'}, {end.idle} processors idle"


def _try_line(row: GridTryRow) -> str:
    which = "last try" if row.last else f"try {row.number}"
    if row.done is None:
        return f"{which} is due at {local_date(row.due)}"
    idle = ", ".join(f"{cluster} {procs}" for cluster, procs in row.idle.items())
    words = [row.outcome, one_line(row.message), f"idle processors: {idle}" if idle else ""]
    return f"{which} at {local_date(row.due)} : {'; '.join(filter(None, words))}"


def _try_record(row: GridTryRow) -> dict[str, JsonValue]:
    return {
        "number": row.number,
        "due": row.due,
        "last": row.last,
        "done": row.done,
        "outcome": row.outcome,
        "idle": dict(row.idle),
        "message": row.message,
    }
