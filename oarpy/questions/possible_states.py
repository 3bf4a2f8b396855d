"""Checks that a file describes a possible state of a cluster; the error names the first wrong object."""

from __future__ import annotations

from collections.abc import Container, Iterable
from math import isfinite

from oarpy.model.typed_values import refuse, shown
from oarpy.profiles.planned import JobId
from oarpy.profiles.profile import Profile
from oarpy.questions.fields import RunningEntry


class Ids:
    """The ids of a file, which answers have as texts."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def owner(self, where: str, place: int, job_id: JobId) -> str:
        """Return how errors call a job, which has an id of its own."""
        owner = f"{where} {place} (id {shown(job_id)})"
        if str(job_id) in self._seen:
            refuse(owner, "id", job_id, "is there twice", "give each job its own id")
        self._seen.add(str(job_id))
        return owner


class HeldMachine:
    """A machine of ``procs`` processors, on which things are held one after the other from ``now`` on."""

    def __init__(self, procs: int, now: float) -> None:
        self.procs, self.now = procs, now
        self.profile = Profile(procs, now)

    def check_size(self, owner: str, procs: int) -> None:
        """Refuse a job that is larger than the machine."""
        if procs > self.procs:
            refuse(owner, "procs", procs, f"is more than the machine has, {self.procs}", "ask for less")

    def hold(self, owner: str, start: float, end: float, procs: int, key: str = "procs") -> None:
        """Hold processors, which must exist. A hold that is over holds nothing."""
        if end <= self.now:
            return
        self.profile.take(max(start, self.now), end, procs)
        if self.profile.least() < 0:
            refuse(owner, key, procs, f"is more than is free beside the others, of {self.procs}", "hold less")

    def run(self, owner: str, start: float, end: float, procs: int) -> None:
        """Hold the processors of a running job."""
        if start > self.now:
            refuse(owner, "start", start, f"is after now, {shown(self.now)}", "a running job has begun")
        self.check_size(owner, procs)
        self.hold(owner, start, end, procs)

    def plan(self, owner: str, start: float, end: float, procs: int) -> None:
        """Hold the processors of a job from its planned start on."""
        if start < self.now:
            refuse(owner, "start", start, f"is before now, {shown(self.now)}", "plan it later")
        self.check_size(owner, procs)
        self.hold(owner, start, end, procs)

    def run_all(self, running: Iterable[RunningEntry], ids: Ids) -> None:
        """Hold the processors of running jobs."""
        for place, job in enumerate(running, 1):
            self.run(ids.owner("running", place, job.id), job.start, job.start + job.time, job.procs)


def check_span(owner: str, start: float, end: float) -> None:
    """Refuse a hold that does not end after its start."""
    if end <= start:
        refuse(owner, "end", end, f"is not after its start, {shown(start)}", "give a later end")


def check_known(owner: str, key: str, names: Iterable[str], known: Container[str]) -> None:
    """Refuse a name that is not among the known ones."""
    for name in names:
        if name not in known:
            refuse(owner, key, name, "is no provider of the file", "name one that is there")


def check_name(place: int, name: str, seen: Container[str]) -> None:
    """Refuse the name of a provider that is empty or was used before."""
    if not name:
        refuse(f"providers {place}", "name", name, "is no name", "give each provider a name")
    if name in seen:
        refuse(f"providers {place}", "name", name, "is there twice", "give each provider its own name")


def check_length(owner: str, key: str, value: float, seconds: float) -> None:
    """Refuse a value that makes times, or numbers of them, too large to print."""
    if not isfinite(seconds):
        refuse(owner, key, value, "makes times too long, or numbers too large", "give other numbers")
