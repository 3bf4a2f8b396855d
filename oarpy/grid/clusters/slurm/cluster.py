"""A cluster that runs Slurm unchanged; the broker runs its commands on one of its hosts.

Everything that a broker has there is in Slurm itself: jobs of one account, whose comments describe them.
``docs/guides/grid-slurm.md`` lists the promises of a cluster that Slurm keeps only approximately.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf
from re import search
from shlex import quote
from typing import Any, Literal

from oarpy.grid.calls.parts import (
    ClusterAbilities,
    ClusterDescription,
    GridPart,
    KnownPart,
    PartEvent,
    PartRequest,
    PreparedPart,
)
from oarpy.grid.calls.table import (
    Abort,
    Answer,
    Call,
    CallRefused,
    Cancel,
    Commit,
    Describe,
    Estimate,
    EstimateInTurn,
    Events,
    Idle,
    Prepare,
    PrepareAll,
    Waiting,
    prepare_each,
    unable,
)
from oarpy.grid.clusters.slurm import scripts
from oarpy.grid.clusters.slurm.jobs import SlurmJob, part_events, queue_plan, read_jobs
from oarpy.grid.clusters.slurm.marks import MarkState, PartMark
from oarpy.grid.clusters.slurm.scripts import SlurmHost
from oarpy.grid.clusters.virtual.machine import QueuePlan

_TOO_LARGE = ("node configuration is not available", "More processors requested", "time limit is invalid")
_TESTED_AT_ONCE = 100
"""Sizes of jobs in one call, which has to end in time."""

ABILITIES = ClusterAbilities(claim=True, reserve=False, withdraw=True, evict=False)
"""What a cluster of Slurm can do for brokers."""


@dataclass(frozen=True, slots=True)
class _Listing:
    now: float
    jobs: list[SlurmJob]

    def of(self, part: str) -> SlurmJob | None:
        """Return the first job of a part that is not over, else its last job."""
        jobs = [job for job in self.jobs if job.mark and job.mark.part == part]
        return next((job for job in jobs if not job.over), jobs[-1] if jobs else None)


class SlurmCluster:
    """A :class:`~oarpy.grid.calls.table.Cluster`: a Slurm behind the command ``words`` (``ssh HOST``; empty: here).

    Parts of ``broker`` are jobs of the account that the command enters as. Each command may take ``seconds``.
    ``refusal`` returns why a user's parts are refused there; empty if they are not. Where the command enters as root,
    only root's parts are made, because all run as the account of the command. ``as_root`` lets parts of all users run
    as root.
    """

    def __init__(
        self,
        name: str,
        words: Sequence[str] = (),
        *,
        broker: str = "grid",
        seconds: float = 20,
        refusal: Callable[[str], str] = lambda user: "",
        as_root: bool = False,
    ) -> None:
        self._name = name
        self._broker = broker
        self._refusal = refusal
        self._as_root = as_root
        self._uid: int | None = None
        self._host = SlurmHost(name, words, seconds)

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self._name

    def ask(self, call: Call[Answer]) -> Answer:
        """Answer a call, by commands of Slurm."""
        handler = _HANDLERS.get(type(call))
        if handler is None:
            raise unable(self._name, call)
        answer: Answer = handler(self, call)
        return answer

    def close(self) -> None:
        """Do nothing: each call is a command of its own."""

    # questions

    def _describe(self, call: Describe) -> ClusterDescription:
        """Return the cluster's description: no reservations for users, and no evictions of its owner's jobs.

        Slurm has no word for its speed.
        """
        counts, clock = self._host.run("sinfo --noheader --format=%C && date +%s.%N").split()
        return ClusterDescription(_processors(counts)[1], 1, float(clock), ABILITIES)

    def _idle(self, call: Idle) -> int:
        """Return how many processors idle now, in the partition of the request."""
        partition = f" --partition={quote(call.request.queue)}" if call.request.queue else ""
        return _processors(self._host.run(f"sinfo --noheader --format=%C{partition}"))[0]

    def _waiting(self, call: Waiting) -> list[KnownPart]:
        """Return the committed parts that wait, including the frozen ones."""
        parts = [
            KnownPart(job.mark.part, str(job.id), job.submitted)
            for job in self._listed().jobs
            if job.mark and job.pending and job.mark.state in ("committed", "frozen", "thawed")
        ]
        return sorted(parts, key=lambda part: (part.submitted, int(part.job)))

    # estimates

    def _estimate(self, call: Estimate) -> list[float]:
        """Return Slurm's estimates; without some jobs, or behind others, the estimates of counting its queue."""
        return self._counted(call) if call.without or call.joined else self._expected_ends(call.requests)

    def _expected_ends(self, requests: Sequence[PartRequest | str]) -> list[float]:
        listed = self._listed()
        known = [
            None if isinstance(request, PartRequest) else self._expected(listed.of(request), listed.now)
            for request in requests
        ]
        sizes = [
            (scripts.size(request, request.walltime), request.walltime)
            if isinstance(request, PartRequest)
            else _alike(listed.of(request))
            for request, end in zip(requests, known, strict=True)
            if end is None
        ]
        answers = iter(self._tested(sizes))
        return [next(answers) if end is None else end for end in known]

    def _estimate_in_turn(self, call: EstimateInTurn) -> list[float]:
        """Return Slurm's estimate for the first job. The others come as much later as counting its queue says."""
        request = call.request
        (first,) = self._expected_ends([request])
        plan, listed = self._plan(())
        ends = [plan.place(request.procs, request.walltime, listed.now) for _ in range(call.count)]
        return [inf if end == inf else first + end - ends[0] for end in ends]

    def _expected(self, job: SlurmJob | None, now: float) -> float | None:
        """Return when a part would end, None if Slurm does not say."""
        if job is None or job.mark is None or job.over:
            return now
        if job.mark.state == "frozen" and job.mark.at > now:
            return max(float(job.mark.note), now) if job.mark.note else None
        if not job.pending:
            return job.end
        return job.start + job.mark.walltime if job.start < inf and job.mark.state != "prepared" else None

    def _tested(self, jobs: Sequence[tuple[list[str], float]]) -> list[float]:
        """Return when jobs of such options and walltimes would end if they were submitted now."""
        sizes = list(dict.fromkeys(tuple(options) for options, _ in jobs))
        starts: dict[tuple[str, ...], float] = {}
        for first in range(0, len(sizes), _TESTED_AT_ONCE):
            some = sizes[first : first + _TESTED_AT_ONCE]
            outputs = self._host.run(scripts.estimates(some)).split("\n=")
            starts.update(zip(some, map(self._start, outputs), strict=True))
        return [starts[tuple(options)] + walltime for options, walltime in jobs]

    def _start(self, output: str) -> float:
        """Read the output of ``sbatch --test-only``."""
        if start := search(r" to start at (\d+)", output):
            return int(start[1])
        if any(word in output for word in _TOO_LARGE):
            return inf
        raise CallRefused(f"cluster {self._name!r} refuses: {output.strip(' =')}")

    def _plan(self, without: Collection[str]) -> tuple[QueuePlan, _Listing]:
        """Return the counted plan of all users' jobs, without some parts, and the broker's jobs in it."""
        counts, clock, *lines = self._host.run(
            "sinfo --noheader --format=%C\n" + scripts.listing("--states=PENDING,RUNNING,SUSPENDED,COMPLETING")
        ).splitlines()
        jobs = read_jobs("\n".join(lines))
        ours = [job for job in jobs if job.mark and job.mark.broker == self._broker]
        absent = {job.id for job in ours if job.mark and job.mark.part in without}
        present = [job for job in jobs if job.id not in absent]
        return queue_plan(present, _processors(counts)[1], float(clock)), _Listing(float(clock), ours)

    def _counted(self, call: Estimate) -> list[float]:
        plan, listed = self._plan(call.without)
        for joining in call.joined:
            plan.place(joining.procs, joining.walltime, listed.now)
        return [
            plan.earliest(request.procs, request.walltime, listed.now) + request.walltime
            if isinstance(request, PartRequest)
            else self._counted_part(listed.of(request), plan, listed.now)
            for request in call.requests
        ]

    def _counted_start(self, job: SlurmJob) -> float:
        """Return when a job would start by counting the queue in which it waits, infinite if it would never.

        Slurm may not have planned it yet, and will not while it is frozen.
        """
        return self._plan(())[0].starts.get(job.id, inf)

    def _counted_part(self, job: SlurmJob | None, plan: QueuePlan, now: float) -> float:
        if job is None or job.mark is None:
            return now
        if not job.pending:
            return job.end
        start = plan.starts.get(job.id)
        walltime = job.mark.walltime
        return walltime + (plan.earliest(job.procs, walltime, now) if start is None else start)

    # transactions

    def _prepare(self, call: Prepare) -> PreparedPart:
        """Submit a held job, allocate processors, or put off the start of a job that waits."""
        key, transaction, part, ttl = call.key, call.transaction, call.part, call.ttl
        if part.kind != "withdrawn":
            self._check_user(part.request.user)
        listed = self._listed()
        known = listed.of(part.name)
        if known and known.mark and known.mark.key == key:
            return PreparedPart(str(known.id), known.hosts)
        self._check_open(listed, transaction)
        if part.kind == "withdrawn":
            return self._freeze(listed, known, PartMark(self._broker, part.name, "", 0, "", transaction, key), ttl)
        if known:
            raise CallRefused(f"part {part.name!r} exists already on cluster {self._name!r}")
        request = part.request
        mark = PartMark(self._broker, part.name, part.kind, request.walltime, transaction, transaction, key)
        mark = replace(mark, at=listed.now + ttl)
        if part.kind == "queued":
            return PreparedPart(self._host.run(scripts.held_job(part, mark, ttl)).strip())
        if part.kind == "reserved":
            raise CallRefused(
                f"cluster {self._name!r} has no parts of kind 'reserved': Slurm reserves for its admins only"
            )
        return self._claim(listed, part, mark, ttl)

    def _check_user(self, user: str) -> None:
        """Raise :class:`CallRefused` for a user whose parts are refused there."""
        if closed := self._refusal(user):
            raise CallRefused(closed)
        if self._as_root or user == "root":
            return
        if self._uid is None:
            self._uid = int(self._host.run("id -u"))
        if self._uid == 0:
            raise CallRefused(
                f"cluster {self._name!r} is entered as root, and jobs of {user!r} would be root's:"
                " its admin gives the broker an account of its own there"
            )

    def _claim(self, listed: _Listing, part: GridPart, mark: PartMark, ttl: float) -> PreparedPart:
        begin = listed.now if part.begin is None else part.begin
        if begin < listed.now:
            raise CallRefused(f"the date of part {part.name!r} is past")
        walltime = begin - listed.now + part.request.walltime
        line = self._host.run(scripts.claimed_job(part, mark, walltime, ttl))
        (job,) = read_jobs(line)
        return PreparedPart(str(job.id), job.hosts)

    def _freeze(self, listed: _Listing, job: SlurmJob | None, wanted: PartMark, ttl: float) -> PreparedPart:
        """Put off the start of a job for the ttl: unlike a hold this keeps its rank, and it ends by itself."""
        if job is None or job.mark is None or not _waits(job, listed.now):
            raise CallRefused(f"part {wanted.part!r} does not wait on cluster {self._name!r}")
        start = self._counted_start(job) if job.start == inf else job.start
        ect = "" if start == inf else str(start + job.mark.walltime)
        mark = replace(job.mark, transaction=wanted.transaction, key=wanted.key)
        frozen = replace(mark, state="frozen", at=listed.now + ttl, note=ect)
        self._host.run(scripts.set_mark(job.id, frozen, f"StartTime=now+{ceil(ttl)}"))
        if (after := self._listed().of(wanted.part)) and not after.pending:
            self._host.run(scripts.set_mark(job.id, job.mark))
            raise CallRefused(f"part {wanted.part!r} does not wait any more on cluster {self._name!r}")
        return PreparedPart(str(job.id))

    def _commit(self, call: Commit) -> None:
        """Release held jobs, let claims begin at their date, and delete frozen jobs."""
        listed, transaction = self._listed(), call.transaction
        jobs = self._jobs_of(listed, transaction)
        standings = [_standing(job, mark, transaction, listed.now) for job, mark in jobs]
        if not jobs or "aborted" in standings:
            raise CallRefused(
                f"transaction {transaction!r} holds nothing on cluster {self._name!r}: it was aborted, or lapsed"
            )
        date = listed.now if call.begin is None else max(listed.now, call.begin)
        script = ""
        for (job, mark), standing in zip(jobs, standings, strict=True):
            if standing == "open" and mark.state == "frozen":
                script += scripts.end_job(job.id, replace(mark, state="withdrawn"))
            elif standing == "open" and mark.kind == "claim":
                script += scripts.let_begin(job.id, replace(mark, state="committed", at=date), call.hosts)
            elif mark.kind == "queued" and job.pending and job.reason == "JobHeldUser":
                script += scripts.set_mark(job.id, replace(mark, state="committed")) + f"scontrol release {job.id}\n"
        if script:
            self._host.run(script)

    def _abort(self, call: Abort) -> None:
        """Delete the parts that were made; let frozen ones go on. Slurm remembers it while it remembers ended jobs."""
        listed, transaction = self._listed(), call.transaction
        jobs = self._jobs_of(listed, transaction)
        script = ""
        for job, mark in jobs:
            standing = _standing(job, mark, transaction, listed.now)
            if standing == "committed":
                raise CallRefused(f"transaction {transaction!r} is committed on cluster {self._name!r}")
            if standing == "open" and mark.state == "frozen":
                thawed = replace(mark, state="thawed", at=0, note="")
                script += scripts.set_mark(job.id, thawed, "StartTime=now")
            elif standing == "open":
                script += scripts.end_job(job.id, replace(mark, state="aborted"))
        if not jobs:
            gone = PartMark(self._broker, "", "queued", 0, transaction, transaction, call.key, state="aborted")
            script = scripts.tombstone(gone)
        if script:
            self._host.run(script)

    def _cancel(self, call: Cancel) -> bool:
        """End the jobs of a part. Slurm forgets jobs that are over: it does not know their parts any more."""
        script, known = "", False
        for job in self._listed().jobs:
            if not job.mark or job.mark.part != call.part:
                continue
            known = True
            if not job.over:
                state: MarkState = "stopped" if job.mark.state == "begun" else "cancelled"
                script += scripts.end_job(job.id, replace(job.mark, state=state, note=call.reason or "cancelled"))
        if script:
            self._host.run(script)
        return known

    def _events(self, call: Events) -> list[PartEvent]:
        """Return the events that Slurm still knows of the broker's jobs, some seconds late.

        End jobs that a lost guard left.
        """
        listed = self._listed()
        left = [job for job in listed.jobs if job.mark and not job.over and _overdue(job, listed.now)]
        if left:
            self._host.run("".join(scripts.end_job(job.id) for job in left))
        return part_events(listed.jobs, listed.now, call.after)

    def _listed(self) -> _Listing:
        """Return the broker's jobs."""
        clock, *lines = self._host.run(scripts.listing()).splitlines()
        jobs = [job for job in read_jobs("\n".join(lines)) if job.mark and job.mark.broker == self._broker]
        return _Listing(float(clock), jobs)

    def _jobs_of(self, listed: _Listing, transaction: str) -> list[tuple[SlurmJob, PartMark]]:
        """Return the jobs that a transaction made or froze; if a part was submitted twice, its first job."""
        first_jobs: dict[str, tuple[SlurmJob, PartMark]] = {}
        for job in listed.jobs:
            if job.mark and transaction in (job.mark.made, job.mark.transaction):
                first_jobs.setdefault(job.mark.part, (job, job.mark))
        return list(first_jobs.values())

    def _check_open(self, listed: _Listing, transaction: str) -> None:
        for job, mark in self._jobs_of(listed, transaction):
            standing = _standing(job, mark, transaction, listed.now)
            if standing != "open":
                raise CallRefused(f"transaction {transaction!r} is {standing} on cluster {self._name!r}")


_HANDLERS: dict[type[Call[Any]], Callable[[SlurmCluster, Any], Any]] = {
    Describe: SlurmCluster._describe,
    Idle: SlurmCluster._idle,
    Waiting: SlurmCluster._waiting,
    Estimate: SlurmCluster._estimate,
    EstimateInTurn: SlurmCluster._estimate_in_turn,
    Events: SlurmCluster._events,
    Prepare: SlurmCluster._prepare,
    PrepareAll: prepare_each,
    Commit: SlurmCluster._commit,
    Abort: SlurmCluster._abort,
    Cancel: SlurmCluster._cancel,
}
"""The handler of each call. An account of Slurm ends no jobs of others, and evicts no job."""


def _alike(job: SlurmJob | None) -> tuple[list[str], float]:
    """Return the options of a job of the size of another, and its walltime."""
    assert job is not None
    assert job.mark is not None
    return [f"--ntasks={job.procs}", f"--time={ceil(job.mark.walltime / 60)}"], job.mark.walltime


def _processors(counts: str) -> tuple[int, int]:
    """Return how many idle, and all, of allocated/idle/other/total."""
    _, idle, _, total = counts.strip().split("/")
    return int(idle), int(total)


def _waits(job: SlurmJob, now: float) -> bool:
    mark = job.mark
    if mark is None or not job.pending:
        return False
    return mark.state in ("committed", "thawed") or (mark.state == "frozen" and mark.at < now)


def _standing(
    job: SlurmJob, mark: PartMark, transaction: str, now: float
) -> Literal["open", "committed", "aborted", "gone"]:
    """Return the state of a transaction by one job that it made or froze; a cancelled job is ``gone``."""
    is_new = mark.made == transaction
    if mark.state in ("cancelled", "stopped"):
        return "gone"
    if mark.state == ("prepared" if is_new else "frozen"):
        return "aborted" if job.over or now > mark.at - 1 else "open"
    if mark.state == ("aborted" if is_new else "thawed"):
        return "aborted"
    return "committed"


def _overdue(job: SlurmJob, now: float) -> bool:
    return job.mark is not None and job.mark.state == "prepared" and now > job.mark.at + 2 * scripts.GRACE
