"""What every run of the systems ``windows`` and ``flexco`` keeps, looked at after each of its events.

It is read from files and states alone. A run that is gone through is compared with runs that were played to each event.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from oarpy.grid.simulation.command import object_of, run_of
from oarpy.simulation.stepping.stepped_run import Stop, plain

Json = dict[str, Any]
_TINY = 1e-9


def broken_promises(file: Json) -> tuple[list[str], Counter[str]]:
    """Return sentences about all that a run does not keep, and how much there was to keep: events, moves, refusals."""
    checks = {"windows": _WindowsRun, "flexco": _FlexcoRun}[file["system"]](file)
    before, begins, met = checks.jobs_at_first(), Counter[Any](), Counter[str]()
    for event, after in _gone_through(json.dumps(file)):
        checks.event(event, before, after)
        met.update(events=1, moves=len(event["changed"]))
        if event["event"] == "begin":
            begins[event["job"]] += 1
        before = after
    met["refusals"] = sum(job["state"] == "Refused" for job in before)
    if begins != Counter(job["id"] for job in before if job["state"] != "Refused"):
        checks.broken.append(f"jobs began so often: {begins}")
    checks.end(before)
    return checks.broken, met


def states_that_differ(file: Json) -> list[str]:
    """Return sentences about events at which a run that was played to them is elsewhere than one gone through."""
    text, broken, jobs = json.dumps(file), [], None
    for number, (_, jobs) in enumerate(_gone_through(text), 1):
        if object_of(text, Stop(steps=number))["jobs"] != jobs:
            broken.append(f"event {number}: another state")
    if object_of(text)["jobs"] != jobs:
        broken.append("another end")
    return broken


def _gone_through(text: str) -> Iterator[tuple[Json, list[Json]]]:
    """Yield each event of a run with the jobs after it."""
    run = run_of(text)
    run.watch()
    for happening in run.events():
        yield {"at": happening[0], **run.description(happening)._asdict()}, plain(run.state()["jobs"])


class _CheckedRun:
    """The file of a run, and what it did not keep."""

    def __init__(self, file: Json) -> None:
        self.file, self.broken = file, list[str]()
        self.clusters = {one["name"]: one for one in file["clusters"]}

    def jobs_at_first(self) -> list[Json]:
        """Return the jobs before the first event."""
        return list(object_of(json.dumps(self.file), Stop(steps=0))["jobs"])

    def event(self, event: Json, before: Sequence[Json], after: Sequence[Json]) -> None:
        """Look at what an event changed."""
        self._hold_together(after, ("Running", "Waiting"), event["at"])
        for job, old, new in zip(self.file["jobs"], before, after, strict=True):
            if old["state"] == new["state"] == "Waiting" and job["id"] != event["job"]:
                self.moved(job, old, new, event["at"])
            if new["state"] in ("Waiting", "Running", "Terminated"):
                self.placed(job, new)
        new = next(new for new in after if new["id"] == event["job"])
        if event["event"] == "arrival" and new["state"] == "Refused":
            others = zip(before, after, strict=True)
            if event["changed"] or any(one != other for one, other in others if other["id"] != event["job"]):
                self.broken.append(f"{new['id']}: refused, and something changed")

    def end(self, jobs: Sequence[Json]) -> None:
        """Look at what became of all jobs."""
        self._hold_together(jobs, ("Terminated",), min((job["start"] or 0 for job in jobs), default=0))

    def moved(self, job: Json, old: Json, new: Json, at: float) -> None:
        """Look at a job that waits before and after an event."""
        raise NotImplementedError

    def placed(self, job: Json, new: Json) -> None:
        """Look at the place of a job."""
        raise NotImplementedError

    def parts(self, job: Json, new: Json) -> Json:
        """Return the processors of a job by cluster."""
        raise NotImplementedError

    def _hold_together(self, jobs: Sequence[Json], states: Sequence[str], now: float) -> None:
        """Make sure that no cluster has more processors in use, or promised, than it has, from an instant on."""
        held = [
            (name, max(new["start"], now), new["end"], procs)
            for job, new in zip(self.file["jobs"], jobs, strict=True)
            if new["state"] in states
            for name, procs in self.parts(job, new).items()
        ]
        for name, start, _, _ in held:
            used = sum(procs for other, begin, end, procs in held if other == name and begin <= start < end)
            if used > self.clusters[name]["procs"]:
                self.broken.append(f"{used} processors of {name} at {start}")


class _WindowsRun(_CheckedRun):
    """Reservations stay in their windows; which were placed outside of them, or are fixed, stay where they are."""

    def parts(self, job: Json, new: Json) -> Json:
        return {new["cluster"]: job["procs"]}

    def placed(self, job: Json, new: Json) -> None:
        time = job.get("walltime", job["run"]) / self.clusters[new["cluster"]].get("speed", 1)
        ready, submit = job.get("ready"), job.get("submit", 0)
        lo, start = max(submit if ready is None else ready, submit), new["start"]
        distance = max(lo - start, start + time - job["deadline"], 0) / time
        if new["phi"] is None and distance > _TINY:
            self.broken.append(f"{job['id']}: starts at {start}, outside of its window")
        if new["phi"] is not None and (
            abs(distance - new["phi"]) > _TINY or distance > job["accept"] + _TINY or new["moves"] or start < submit
        ):
            self.broken.append(f"{job['id']}: starts at {start}, which is not the offer that it accepts")

    def moved(self, job: Json, old: Json, new: Json, at: float) -> None:
        fix, submit = self.file["windows"].get("fix"), job.get("submit", 0)
        fixed = fix is not None and at >= submit + fix / 100 * (old["start"] - submit)
        if fixed and old["start"] != new["start"]:
            self.broken.append(f"{job['id']}: moved from {old['start']} at {at}, when it was fixed")


class _FlexcoRun(_CheckedRun):
    """No job ends later than promised; a metajob has all its processors."""

    def parts(self, job: Json, new: Json) -> Json:
        return dict(new["parts"])

    def placed(self, job: Json, new: Json) -> None:
        if new["end"] > new["planned"]["end"] + _TINY:
            self.broken.append(f"{job['id']}: ends at {new['end']}, later than planned")
        if "cluster" in job:
            limits = {**dict.fromkeys(self.clusters, 0), job["cluster"]: job["procs"]}
        else:
            limits = job.get("at_most", {})
        if sum(new["parts"].values()) != job["procs"] or any(
            not 1 <= procs <= limits.get(name, procs) for name, procs in new["parts"].items()
        ):
            self.broken.append(f"{job['id']}: has parts {new['parts']}")

    def moved(self, job: Json, old: Json, new: Json, at: float) -> None:
        later = new["end"] > old["end"] + _TINY or ("cluster" in job and new["start"] > old["start"])
        if later or new["start"] < at:
            self.broken.append(f"{job['id']}: moved from {old} to {new} at {at}")
