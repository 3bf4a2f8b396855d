"""The mapper: mapped jobs get the cluster where they end first, and a part that waits there.

::

    Submitted jobs that are alike -> ECTs of all clusters -> the core chooses job by job
        -> parts, by cluster, in bunches of one transaction each

An array costs one question for each cluster. The answer has the end of each of a number of equal jobs, every job behind
the ones before it. Merged job by job, this gives the same result as a new question for each job.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Collection, Container, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby

from oarpy.grid.broker.acts import Place, Prepared, Terms
from oarpy.grid.broker.broker_module import BrokerModule
from oarpy.grid.broker.connections import ClusterConnections
from oarpy.grid.broker.conversations import CallBatch, ClusterCall, Conversation
from oarpy.grid.broker.decisions import DrivenCore
from oarpy.grid.broker.set_aside import contradiction
from oarpy.grid.broker.transactions import Transactions, note_prepared, part_name
from oarpy.grid.calls.parts import GridPart, PartRequest
from oarpy.grid.calls.table import Cluster, ClusterSilent, Estimate, EstimateInTurn
from oarpy.grid.core.broker_state import BrokerState, GridCluster, MappedJob, ReallocationRules
from oarpy.grid.core.exchanges import AskEcts, EctsTold, JobArrived, JoinQueue
from oarpy.model.errors import OarpyError
from oarpy.model.states import GridJobState
from oarpy.modules.loop.module import Outcome
from oarpy.store.database import Connection
from oarpy.store.grid import broker_jobs, broker_parts, clusters, decisions, transactions
from oarpy.store.grid.broker_jobs import GridComponentRow, GridJobRow
from oarpy.store.grid.clusters import GridClusterRow

MODULE = "mapper"
_KINDS = ("mapped",)
_PATIENCE, _PATIENCE_A_JOB = 20.0, 0.02
"""Seconds that a cluster has to estimate, and for each job of an array."""
_BUNCH = 100
"""Parts that one transaction makes: if a cluster fails during it, this many jobs are concerned."""
_MOST_ALIKE = 5000
"""Jobs that are read at once."""
_RETRY = 5.0
"""Seconds after which jobs for which no cluster answered are looked at again."""

EctsByCluster = Mapping[str, "Sequence[float] | OarpyError"]


@dataclass(slots=True)
class AlikeJobs:
    """Jobs of one user that ask for the same: one answer of a cluster serves all of them."""

    jobs: list[GridJobRow]
    component: GridComponentRow
    clusters: list[GridClusterRow]


@dataclass(slots=True)
class _Bunch:
    """Jobs that go to one cluster by one transaction."""

    alike: AlikeJobs
    cluster: GridClusterRow
    jobs: list[GridJobRow]

    @property
    def ids(self) -> list[int]:
        """The ids of its jobs."""
        return [job.id for job in self.jobs]

    @property
    def alone(self) -> list[int]:
        """The id of its job if it has one: of several jobs any may be at fault."""
        return self.ids if len(self.jobs) == 1 else []


@dataclass(slots=True)
class _Memory:
    """The work under way; it is found again when the mapper was killed."""

    mapping: AlikeJobs | None = None
    waiting: dict[str, deque[_Bunch]] = field(default_factory=dict)
    preparing: dict[int, _Bunch] = field(default_factory=dict)
    busy: set[int] = field(default_factory=set)
    refused: dict[int, dict[str, str]] = field(default_factory=dict)
    later: dict[int, float] = field(default_factory=dict)
    usable: set[str] = field(default_factory=set)
    looked_at: int = 0
    """The last job that was looked at: the jobs behind it have their turn."""


class Mapper(BrokerModule):
    """The module. ``ttl``: seconds for which clusters keep a part that is prepared and not committed."""

    name = MODULE

    def __init__(
        self,
        rules: ReallocationRules,
        ttl: float,
        connections: ClusterConnections,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(connections, clock)
        self._rules = rules
        self._terms = Terms(lambda: ttl)
        self._transactions = Transactions(MODULE, self._conversations, clock)
        self._memory = _Memory()
        self._last: tuple[float, str] = (-math.inf, "")
        """The last turn (round robin)."""
        self._chance = BrokerState((), reallocation=rules).chance

    def _begin_anew(self, connection: Connection) -> None:
        self._memory = _Memory()
        self._transactions.recover(connection, self._one_job)

    def _round(self, connection: Connection, rows: Sequence[GridClusterRow]) -> Outcome:
        self._look_again(rows)
        heard = placed = 0
        self._tend(connection, rows)
        while over := self._conversations.go_on():
            for name, result in over:
                placed += self._hear(connection, name, result)
            heard += len(over)
            self._tend(connection, rows)
        dates = [*self._memory.later.values(), self._conversations.wake_at()]
        wake_at = min((date for date in dates if date is not None), default=None)
        word = f"placed {placed}" if placed else "nothing"
        return Outcome(word, wake_at=wake_at, pending=bool(self._memory.busy or self._conversations.wake_at()))

    def _look_again(self, rows: Sequence[GridClusterRow]) -> None:
        """Let delayed jobs be mapped when it is time, or when a missing cluster is there."""
        memory, silent = self._memory, self._connections.silent()
        usable = {row.name for row in rows if row.active and row.name not in silent}
        now = self._clock()
        if usable - memory.usable:
            now, memory.looked_at = math.inf, 0
        memory.later = {job: date for job, date in memory.later.items() if date > now}
        memory.usable = usable

    def _tend(self, connection: Connection, rows: Sequence[GridClusterRow]) -> None:
        self._delete(connection)
        self._begin_bunches(connection)
        if self._memory.mapping is None and not self._memory.preparing:
            self._begin_mapping(connection, rows)
        self._transactions.spread(connection, self._aside)

    def _delete(self, connection: Connection) -> None:
        """End the jobs whose deletion was requested: at once without a part; otherwise the watcher ends the part."""
        for job in broker_jobs.to_delete(connection, _KINDS):
            reason = f"deleted by {job.delete_by}"
            if job.id in self._memory.busy or job.id in self._aside:
                continue
            with self._one_job(connection, job.id):
                if job.state is GridJobState.SUBMITTED:
                    broker_jobs.move(connection, [job.id], GridJobState.ERROR, reason)
                else:
                    names = [part.name for part in broker_parts.of_jobs(connection, [job.id])]
                    broker_parts.ask_end(connection, names, reason)

    # which cluster

    def _begin_mapping(self, connection: Connection, rows: Sequence[GridClusterRow]) -> None:
        """Ask all clusters for the ECTs of the next jobs that are alike; jobs wait if no cluster can be asked."""
        late: dict[str, list[int]] = {}
        for alike in self._in_turn(connection, rows):
            jobs = [job.id for job in alike.jobs]
            self._memory.looked_at = jobs[-1]
            if alike.clusters:
                self._memory.mapping = alike
                self._memory.busy |= set(jobs)
                self._conversations.begin(("ects",), self._ask_ects(alike))
                break
            if (reason := self._awaited(alike.jobs[0], rows)) is not None:
                late.setdefault(reason, []).extend(jobs)
            else:
                with self._one_job(connection, *jobs):
                    self._fail(connection, jobs, "; ".join(self._refusals(alike.jobs[0], rows).values()))
        for reason, jobs in late.items():
            with self._one_job(connection, *jobs):
                self._put_off(connection, jobs, reason)

    def _in_turn(self, connection: Connection, rows: Sequence[GridClusterRow]) -> Iterator[AlikeJobs]:
        """Yield alike jobs, beginning behind the jobs of the last look, so that every job gets its turn."""
        turn = self._memory.looked_at
        for first, end in ((turn, math.inf), (0, turn)):
            after: int | None = first
            while after is not None and after < end:
                submitted = broker_jobs.in_states(
                    connection,
                    [GridJobState.SUBMITTED],
                    _KINDS,
                    _MOST_ALIKE,
                    after=after,
                    other_than=self._memory.busy.union(self._memory.later, self._aside.jobs()),
                )
                ready = [job for job in submitted if job.id <= end and job.delete_asked is None]
                if ready:
                    yield from self._alike(connection, ready, rows)
                after = submitted[-1].id if len(submitted) == _MOST_ALIKE else None

    def _alike(
        self, connection: Connection, ready: Sequence[GridJobRow], rows: Sequence[GridClusterRow]
    ) -> Iterator[AlikeJobs]:
        """Yield jobs that ask for the same, one behind the other, with the clusters that can be asked for them."""
        components = broker_jobs.components(connection, [job.id for job in ready])
        silent = self._connections.silent()

        wanted: dict[int, tuple[object, object]] = {}
        for job in ready:
            try:
                wanted[job.id] = _asked(job, components[job.id][0]), self._memory.refused.get(job.id)
            except Exception as error:
                self._aside.put(connection, [job.id], contradiction(error))
        for _, group in groupby((job for job in ready if job.id in wanted), lambda job: wanted[job.id]):
            jobs = list(group)
            refused = self._refusals(jobs[0], rows)
            usable = [row for row in rows if row.active and row.name not in refused and row.name not in silent]
            yield AlikeJobs(jobs, components[jobs[0].id][0], usable)

    def _refusals(self, job: GridJobRow, rows: Sequence[GridClusterRow]) -> dict[str, str]:
        """Return the clusters that are not open to the user of a job, or have refused it, with why."""
        closed = {row.name: reason for row in rows if row.active and (reason := row.refusal_to(job.user))}
        return closed | self._memory.refused.get(job.id, {})

    def _awaited(self, job: GridJobRow, rows: Sequence[GridClusterRow], answered: Container[str] = ()) -> str | None:
        """Say why a job waits while no cluster takes it; return None if all active clusters have refused it."""
        active = [row.name for row in rows if row.active]
        if not active:
            return "no cluster is active (oargridctl clusters)"
        refused, silent = self._refusals(job, rows), self._connections.silent()
        unheard = [name for name in active if name not in refused and name not in answered]
        texts = [silent.get(name) or f"cluster '{name}' does not answer" for name in unheard]
        return "; ".join(texts) if texts else None

    def _put_off(self, connection: Connection, jobs: Sequence[int], reason: str) -> None:
        broker_jobs.note(connection, jobs, f"waits for a cluster: {reason}"[:1000])
        self._memory.later |= dict.fromkeys(jobs, self._clock() + _RETRY)

    def _fail(self, connection: Connection, jobs: Sequence[int], reason: str) -> None:
        broker_jobs.move(connection, jobs, GridJobState.ERROR, (reason or "no cluster takes it")[:1000])
        for job in jobs:
            self._memory.refused.pop(job, None)

    def _ask_ects(self, alike: AlikeJobs) -> Conversation[object]:
        count, patience = len(alike.jobs), _PATIENCE + _PATIENCE_A_JOB * len(alike.jobs)

        def asking(row: GridClusterRow) -> Callable[[Cluster], object]:
            request = request_of(alike.jobs[0], alike.component, row)

            def ask(cluster: Cluster) -> list[float]:
                ends = cluster.ask(Estimate([request])) if count == 1 else cluster.ask(EstimateInTurn(request, count))
                return [end - row.clock_ahead for end in ends]

            return ask

        answers = yield CallBatch([ClusterCall(row.name, asking(row), patience) for row in alike.clusters], patience)
        return {row.name: answer for row, answer in zip(alike.clusters, answers, strict=True)}

    def _choose(self, connection: Connection, alike: AlikeJobs, answers: EctsByCluster) -> None:
        """Let the core choose, job by job, from the answers of clusters that are still in use."""
        self._memory.mapping = None
        jobs = [job.id for job in alike.jobs]
        self._memory.busy -= set(jobs)
        rows = clusters.every(connection)
        known = {row.name for row in rows if row.active}
        ends_by_cluster = {
            name: list(answer)
            for name, answer in answers.items()
            if name in known and not isinstance(answer, OarpyError)
        }
        failures = {name: answer for name, answer in answers.items() if isinstance(answer, OarpyError)}
        refusals = {name: str(error) for name, error in failures.items() if not isinstance(error, ClusterSilent)}
        possible = {name: ends for name, ends in ends_by_cluster.items() if ends[0] < math.inf}
        if not possible:
            reason = self._awaited(alike.jobs[0], rows, {*ends_by_cluster, *refusals})
            if reason is not None:
                texts = [*refusals.values(), reason]
                self._put_off(connection, jobs, "; ".join(texts))
            else:
                earlier = self._refusals(alike.jobs[0], rows).values()
                never = [f"cluster '{name}' can never run it" for name in ends_by_cluster]
                self._fail(connection, jobs, "; ".join([*earlier, *refusals.values(), *never]))
            return
        chosen = self._taken(connection, alike, possible)
        by_name = {row.name: row for row in alike.clusters}
        for name, mine in chosen.items():
            bunches = self._memory.waiting.setdefault(name, deque())
            for place in range(0, len(mine), _BUNCH):
                bunches.append(_Bunch(alike, by_name[name], mine[place : place + _BUNCH]))
        self._memory.busy |= set(jobs)

    def _taken(
        self, connection: Connection, alike: AlikeJobs, ends_by_cluster: Mapping[str, Sequence[float]]
    ) -> dict[str, list[GridJobRow]]:
        """Return the jobs that go to each cluster; the decision is stored with its inputs."""
        rows = {row.name: row for row in alike.clusters if row.name in ends_by_cluster}
        known = tuple(
            GridCluster(row.name, row.procs or alike.component.procs, row.speed, "evict" in row.abilities)
            for row in rows.values()
        )
        state = BrokerState(known, reallocation=self._rules)
        state.turn, state.chance = sum(_turn(row) <= self._last for row in rows.values()), self._chance
        core, now = DrivenCore(state), self._clock()
        chosen: dict[str, list[GridJobRow]] = {}
        for job in alike.jobs:
            arrived = JobArrived(MappedJob(job.id, job.submitted, alike.component.procs, job.walltime))
            actions = core.tell(arrived, now)
            if isinstance(question := actions[0], AskEcts):
                ects = [(ends_by_cluster[name][len(chosen.get(name, ()))],) for name in question.clusters]
                actions = core.tell(EctsTold(tuple(question.clusters), (job.id,), ects, question.question), now)
            for action in actions:
                if isinstance(action, JoinQueue):
                    chosen.setdefault(action.cluster, []).append(job)
                    self._last = _turn(rows[action.cluster])
        self._chance = state.chance
        noted = core.taken()
        decisions.add(connection, MODULE, now, noted.state, noted.events, noted.actions)
        return chosen

    # its part there

    def _begin_bunches(self, connection: Connection) -> None:
        """Begin to prepare the next parts, on each cluster one bunch at a time."""
        working = {bunch.cluster.name for bunch in self._memory.preparing.values()}
        for name, bunches in self._memory.waiting.items():
            if bunches and name not in working:
                bunch = bunches.popleft()
                single = next(iter(bunch.alone), None)
                with self._one_job(connection, *bunch.alone) as attempt:
                    number = self._transactions.begin(
                        connection, "place", single, self._terms, partial(_parts_of, bunch)
                    )
                if attempt.failure:
                    self._put_back(bunch)
                else:
                    self._memory.preparing[number] = bunch

    def _hear(self, connection: Connection, name: Hashable, result: object) -> int:
        """Take in the result of a conversation; return how many jobs have their cluster now."""
        match name, result:
            case ("ects",), dict():
                if (alike := self._memory.mapping) is not None:
                    with self._one_job(connection, *(job.id for job in alike.jobs)):
                        self._choose(connection, alike, result)
            case ("prepare", int(number)), Prepared():
                return self._prepared(connection, number, result)
            case ("outcome", int(number), *_), str():
                with self._one_outcome(connection, number):
                    self._transactions.heard(connection, name, result).map_anew(connection)
        return 0

    def _prepared(self, connection: Connection, number: int, result: Prepared) -> int:
        """Decide: all parts of a bunch are prepared, or it is given up and its jobs are mapped again."""
        bunch = self._memory.preparing.pop(number)
        errors = [error for _, error in result.failures]
        reason, placed = "; ".join(map(str, errors)), False
        with self._one_job(connection, *bunch.alone) as attempt:
            if not reason:
                note_prepared(connection, number, result)
                placed = transactions.decide(connection, number)
            if placed:
                broker_jobs.move(connection, bunch.ids, GridJobState.MAPPED, "")
            else:
                transactions.give_up(connection, number, reason or "it lapsed before it was decided")
        if attempt.failure:
            with self._one_job(connection, *bunch.alone):
                transactions.give_up(connection, number, attempt.failure)
        if attempt.failure or (len(bunch.jobs) > 1 and not result.refused and _is_refusal(errors)):
            self._put_back(bunch)
            return 0
        self._memory.busy.difference_update(bunch.ids)
        if placed:
            return len(bunch.jobs)
        parts = {part.name: part.job for part in broker_parts.of_transaction(connection, number)}
        self._remember_refusal(parts, bunch.cluster.name, result)
        return 0

    def _put_back(self, bunch: _Bunch) -> None:
        """Ask again for each half of a bunch that failed as a whole: one job may be the cause, which is free then."""
        if bunch.alone:
            self._memory.busy.difference_update(bunch.ids)
            return
        middle = len(bunch.jobs) // 2
        halves = [replace(bunch, jobs=some) for some in (bunch.jobs[middle:], bunch.jobs[:middle])]
        self._memory.waiting[bunch.cluster.name].extendleft(halves)

    def _remember_refusal(self, parts: Mapping[str, int], cluster: str, result: Prepared) -> None:
        """Remember a cluster that refused a job, so that it is not asked again. A silent cluster is not remembered."""
        if result.refused:
            jobs = [job for name, job in parts.items() if name in result.refused]
        else:
            jobs = list(parts.values())
        for _, error in result.failures:
            if not isinstance(error, ClusterSilent):
                for job in jobs:
                    self._memory.refused.setdefault(job, {})[cluster] = str(error)


def request_of(job: GridJobRow, component: GridComponentRow, cluster: GridClusterRow) -> PartRequest:
    """Return a job's request to a cluster, with its walltime there."""
    return PartRequest(
        job.user,
        component.resources,
        component.procs,
        job.walltime / cluster.speed,
        job.queue,
        component.properties,
        job.project,
        component.types,
    )


def queued_part(job: GridJobRow, component: GridComponentRow, cluster: GridClusterRow, transaction: str) -> Place:
    """Return the part that stands for a job in the queue of a cluster."""
    part = GridPart(
        part_name(job.id, component.number, transaction),
        "queued",
        request_of(job, component, cluster),
        job.program,
        job.directory,
        component.name or job.job_name,
        environment={"OAR_GRID_JOB_ID": str(job.id), "OAR_GRID_COMPONENT": str(component.number)},
    )
    return Place(job.id, component.number, cluster.name, part)


def _is_refusal(failures: Collection[OarpyError]) -> bool:
    """Tell whether clusters refused; a silent cluster did not."""
    return bool(failures) and not any(isinstance(error, ClusterSilent) for error in failures)


def _parts_of(bunch: _Bunch, transaction: str) -> list[Place]:
    return [queued_part(job, bunch.alike.component, bunch.cluster, transaction) for job in bunch.jobs]


def _asked(job: GridJobRow, component: GridComponentRow) -> tuple[object, ...]:
    """Return all that clusters learn of a job before it has its part."""
    return (
        job.user,
        job.walltime,
        job.queue,
        job.project,
        component.resources,
        component.procs,
        component.properties,
        component.types,
        component.cluster,
    )


def _turn(row: GridClusterRow) -> tuple[float, str]:
    """Return the key of a cluster's turn, whichever other clusters are available."""
    return row.place, row.name
