"""``oarpy grid simulate``: read scenarios, run them, print what becomes of their jobs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from oarpy.grid.simulation.grid_run import GridOutcome, GridRun, JobCourse
from oarpy.grid.simulation.metrics import judge
from oarpy.grid.simulation.promised.systems import read_world
from oarpy.grid.simulation.promised.world import PromisedWorld
from oarpy.grid.simulation.reader import read_grid
from oarpy.grid.simulation.scenario import GridJob, GridScenario
from oarpy.grid.simulation.system_of_file import QUEUES, system_of
from oarpy.model.errors import UsageError
from oarpy.simulation.scenarios.input_file import text_of

_NOT_A_SCENARIO = 2


def run_grid(paths: Sequence[str], out: TextIO, err: TextIO) -> int:
    """Simulate each file and write one JSON object a line for each to ``out``; return the exit status.

    A file that is no scenario gets one line on ``err`` and the status 2; the others are still simulated.
    """
    status = 0
    for path in paths:
        try:
            run = run_of(text_of(path))
        except UsageError as error:
            err.write(f"{path}: {error}\n")
            status = _NOT_A_SCENARIO
            continue
        out.write(json.dumps(run()) + "\n")
        out.flush()
    return status


def run_of(text: str) -> Callable[[], dict[str, Any]]:
    """Return what runs a file to its end, and returns the object to print. Raises :class:`UsageError`."""
    system = system_of(text)
    if system == QUEUES:
        scenario = read_grid(text)
        return lambda: outcome_entry(scenario, GridRun(scenario).run())
    world = read_world(text, system)
    return lambda: _end_of(world)


def object_of(text: str) -> dict[str, Any]:
    """Run the text of a file to its end, and return the object to print. Raises :class:`UsageError`."""
    return run_of(text)()


def _end_of(world: PromisedWorld[Any, Any]) -> dict[str, Any]:
    for _ in world.events():
        pass
    jobs = [world.entry(number) for number in range(len(world.jobs))]
    return {"jobs": _plain(jobs), "metrics": _plain(world.metrics())}


def _plain(value: Any) -> Any:
    """Return a value of JSON with whole numbers as such."""
    match value:
        case dict():
            return {key: _plain(one) for key, one in value.items()}
        case list():
            return [_plain(one) for one in value]
        case _:
            return _number(value)


def outcome_entry(scenario: GridScenario, outcome: GridOutcome) -> dict[str, object]:
    """Return what became of a scenario as an object of JSON."""
    jobs = scenario.jobs
    moves = [
        {
            "at": _number(move.at),
            "job": jobs[move.job].id,
            "from": move.source,
            "to": move.target,
            "old": _number(move.old),
            "new": _number(move.new),
        }
        for move in outcome.moves
    ]
    courses = [_entry(job, course, jobs) for job, course in zip(jobs, outcome.courses, strict=True)]
    judged = {key: _number(value) for key, value in judge(scenario, outcome).entry().items()}
    return {"jobs": courses, "moves": moves, "metrics": judged}


def _entry(job: GridJob, course: JobCourse, jobs: Sequence[GridJob]) -> dict[str, object]:
    return {
        "id": job.id,
        "state": course.state,
        "clusters": list(course.clusters),
        "claimed": _number(course.claimed),
        "start": _number(course.start),
        "end": _number(course.end),
        "tries": [_number(at) for at in course.tries],
        "killed": [jobs[number].id for number in course.killed],
    }


def _number(value: float | None) -> float | None:
    """Return whole numbers as such."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
