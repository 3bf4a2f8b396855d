"""Jobs whose components start together at a deadline: tries, claims, starts, and the reasons of failures.

The next step of a job follows from the rows alone. So a broker that was killed goes on where it was::

    Submitted --try is due: sound clusters--> Claiming --all hold--> Claimed --D - 5 s: decided--> Running
        ^                                         |                     |
        '------------- a cluster refuses ---------'                     '--> Missed: not all of them started
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from oarpy.grid.broker.acts import Act, Hold, Prepared, Terms
from oarpy.grid.broker.coallocated.cluster_room import RoomAsked
from oarpy.grid.broker.coallocated.common_starts import ClaimTimes, after_start, at_start, before_start
from oarpy.grid.broker.coallocated.component_requests import (
    core_job,
    evictions_of,
    part_of,
    planned,
    request_of,
    rules_of,
    state_of,
)
from oarpy.grid.broker.coallocated.job_files import GridJobFile
from oarpy.grid.broker.coallocated.room_looks import RoomFound, RoomLooks, RoomsFound
from oarpy.grid.broker.decisions import DrivenCore
from oarpy.grid.broker.transactions import Transactions, note_prepared
from oarpy.grid.core.broker_state import DeadlineRules
from oarpy.grid.core.exchanges import Action, ClaimParts, Event, JobArrived, MissJob, TryAt, TryDue
from oarpy.model.states import GridJobState, GridPartState
from oarpy.store.database import Connection
from oarpy.store.grid import broker_jobs, broker_parts, clusters, decisions, placing_tries, transactions
from oarpy.store.grid.clusters import GridClusterRow
from oarpy.store.grid.placing_tries import GridTryRow

MODULE = "claimer"
ANEW = "the broker was started anew"
_UNDECIDED = (GridPartState.PREPARED, GridPartState.ABORTING, GridPartState.GONE)


@dataclass(frozen=True, slots=True)
class CoallocatedJobs:
    """The steps of these jobs. ``rules`` apply to jobs without rules of their own.

    The caller begins the ``looks`` after it has tended the jobs.
    """

    transactions: Transactions
    rules: DeadlineRules
    times: ClaimTimes
    looks: RoomLooks
    clock: Callable[[], float]

    # The steps that are due

    def tend(self, connection: Connection, file: GridJobFile, now: float) -> float:
        """Make the due steps of a job; return the time of the next step (epoch seconds), or infinity."""
        if file.job.delete_asked is not None:
            self._end(connection, file, GridJobState.ERROR, f"deleted by {file.job.delete_by}")
            return inf
        match file.job.state:
            case GridJobState.SUBMITTED:
                return self._submitted(connection, file, now)
            case GridJobState.CLAIMING if not self.transactions.is_preparing(file.rows[0].transaction):
                self.transactions.give_up(connection, file.rows[0].transaction, ANEW)
                broker_jobs.move(connection, [file.job.id], GridJobState.SUBMITTED)
                return now
            case GridJobState.CLAIMED if all(row.state in _UNDECIDED for row in file.rows):
                return self._held(connection, file, now)
            case GridJobState.CLAIMED:
                return self._starts(connection, file, now)
            case GridJobState.RUNNING if after_start(file.parts).act == "over":
                end(connection, file)
        return inf

    def _submitted(self, connection: Connection, file: GridJobFile, now: float) -> float:
        """Plan the job's first try, or make the try that is due."""
        if file.last_try is None:
            known = open_to(usable(connection), file)
            (action,) = self._decide(connection, file, known, JobArrived(core_job(file.job, file.components)), now)
            assert isinstance(action, TryAt)
            placing_tries.plan(connection, file.job.id, 0, action.at, last=action.last)
            return action.at
        due = file.last_try
        if now < due.due or file.job.id in self.looks:
            return due.due if now < due.due else inf
        if now > file.deadline - self.times.latest_commit:
            self._end(connection, file, GridJobState.MISSED, "the broker was not there at its deadline")
            return inf
        known = open_to(usable(connection), file)
        evicting = due.last and now + self.times.kill_grace + self.times.latest_commit <= file.deadline
        slowest = min((cluster.speed for cluster in known), default=1)
        request = request_of(file.job, file.components[0], file.job.walltime / slowest)
        self.looks.add(file.job.id, RoomAsked(request, file.deadline, evicting))
        return inf

    def _held(self, connection: Connection, file: GridJobFile, now: float) -> float:
        """Decide the start of a job when it is time, unless a part was lost."""
        transaction = file.rows[0].transaction
        following = before_start(file.parts, file.deadline, now, self.times)
        if following.act == "commit":
            transactions.decide(connection, transaction, file.deadline)
        elif following.act == "give up":
            self.transactions.give_up(connection, transaction, following.reason)
            if now > file.deadline - self.times.latest_commit:
                broker_jobs.move(connection, [file.job.id], GridJobState.MISSED, following.reason)
            else:
                self._again(connection, file, following.reason, now)
        return following.at

    def _starts(self, connection: Connection, file: GridJobFile, now: float) -> float:
        """Make sure that all parts run, or none of them."""
        following = at_start(file.parts, file.deadline, now, self.times)
        if following.act == "running":
            started = min(row.started for row in file.rows if row.started is not None)
            broker_jobs.move(connection, [file.job.id], GridJobState.RUNNING, "", started=started)
            return now  # short parts have ended already
        if following.act == "end all":
            self._end(connection, file, GridJobState.MISSED, following.reason)
        return following.at

    def _end(self, connection: Connection, file: GridJobFile, state: GridJobState, reason: str) -> None:
        """End a job and all that it has on clusters."""
        self.looks.forget(file.job.id)
        end_parts(connection, self.transactions, file, reason)
        placing_tries.drop_pending(connection, [file.job.id])
        broker_jobs.move(connection, [file.job.id], state, reason)

    # The answers of clusters

    def room_found(self, connection: Connection, file: GridJobFile, rooms: RoomsFound, now: float) -> None:
        """Take the decision of a try from the answers of clusters."""
        row = file.last_try
        if file.job.state is not GridJobState.SUBMITTED or row is None or row.done is not None:
            return
        there = usable(connection)
        open_there = open_to(there, file)
        room = rooms.of(file.job.id, open_there)
        known = [cluster for cluster in open_there if cluster.name in room.due.idle]
        (action,) = self._decide(connection, file, known, room.due, now)
        if isinstance(action, ClaimParts):
            rooms.taken(action)
            self._claim(connection, file, action, room, known, now)
        else:
            room_words = (
                ", ".join(f"{name} {idle} idle" for name, idle in room.due.idle.items()) or "no cluster is in use"
            )
            closed = filter(None, (cluster.refusal_to(file.job.user) for cluster in there))
            words = "; ".join((room_words, *room.silent.values(), *closed))
            self._failed(connection, file, action, "no room", f"no room for all components: {words}", room.due)

    def held(self, connection: Connection, file: GridJobFile, transaction: int, result: Prepared, now: float) -> None:
        """Keep the held processors, or give them up."""
        if file.job.state is not GridJobState.CLAIMING or not file.rows or file.rows[0].transaction != transaction:
            return
        if result.failure:
            self.transactions.give_up(connection, transaction, result.failure)
            self._again(connection, file, result.failure, now)
            return
        note_prepared(connection, transaction, result)
        transactions.hold(connection, transaction)
        row = made_try(file)
        placing_tries.settle(
            connection, file.job.id, row.number, "claimed", row.idle, " ".join(part.cluster for part in file.rows)
        )
        broker_jobs.move(connection, [file.job.id], GridJobState.CLAIMED, "")

    def _claim(
        self,
        connection: Connection,
        file: GridJobFile,
        claim: ClaimParts,
        room: RoomFound,
        known: Sequence[GridClusterRow],
        now: float,
    ) -> None:
        """Store the parts to be claimed, and begin to claim them."""
        speeds = {row.name: row.speed for row in known}
        walltime = file.job.walltime / min(speeds[name] for name in claim.clusters)
        evictions = evictions_of(claim, room.due, request_of(file.job, file.components[0], walltime))

        def plan(transaction: str) -> list[Act]:
            places = zip(file.components, claim.clusters, strict=True)
            holds = [
                Hold(
                    file.job.id, component.number, cluster, part_of(file.job, component, "claim", walltime, transaction)
                )
                for component, cluster in places
            ]
            return [*holds, *evictions]

        def ttl() -> float:
            return file.deadline + self.times.margin - self.clock()

        terms = Terms(ttl, file.deadline, file.deadline - 2 * self.times.latest_commit)
        broker_jobs.move(connection, [file.job.id], GridJobState.CLAIMING)
        self.transactions.begin(connection, "claim", file.job.id, terms, plan)

    def _again(self, connection: Connection, file: GridJobFile, reason: str, now: float) -> None:
        """Count a failed claim as a try that found no room."""
        known = open_to(usable(connection), file)
        nothing = TryDue(file.job.id, {cluster.name: 0 for cluster in known})
        (action,) = self._decide(connection, file, known, nothing, now)
        if isinstance(action, TryAt):
            broker_jobs.move(connection, [file.job.id], GridJobState.SUBMITTED)
        self._failed(connection, file, action, "refused", reason, nothing)

    def _failed(
        self, connection: Connection, file: GridJobFile, action: Action, outcome: str, reason: str, due: TryDue
    ) -> None:
        """Note that a try failed, and plan the next one, or give the job up."""
        job, row = file.job.id, made_try(file)
        placing_tries.settle(connection, job, row.number, outcome, due.idle, reason)
        if isinstance(action, TryAt):
            placing_tries.plan(connection, job, row.number + 1, action.at, last=action.last)
            broker_jobs.note(connection, [job], reason)
        else:
            assert isinstance(action, MissJob)
            broker_jobs.move(connection, [job], GridJobState.MISSED, reason)

    def _decide(
        self, connection: Connection, file: GridJobFile, known: Sequence[GridClusterRow], event: Event, now: float
    ) -> Sequence[Action]:
        """Have the core decide, and store the decision with its inputs."""
        evicting = any("evict" in cluster.abilities for cluster in known)
        rules = rules_of(file.job, self.rules, self.times, evicting=evicting)
        state = state_of(file.job, file.components, known, rules)
        if (row := file.last_try) is not None:
            state.tries[file.job.id] = planned(row.number, row.due, row.last, rules)
        core = DrivenCore(state)
        actions = core.tell(event, now)
        taken = core.taken()
        decisions.add(connection, MODULE, now, taken.state, taken.events, taken.actions)
        return actions


def made_try(file: GridJobFile) -> GridTryRow:
    """Return the try that a job makes, or has made last."""
    assert file.last_try is not None
    return file.last_try


def usable(connection: Connection) -> list[GridClusterRow]:
    """Return the clusters on which parts may be made, in configured order."""
    return [cluster for cluster in clusters.every(connection) if cluster.active]


def open_to(rows: Sequence[GridClusterRow], file: GridJobFile) -> list[GridClusterRow]:
    """Return the clusters that are open to the user of a job."""
    return [row for row in rows if not row.refusal_to(file.job.user)]


def end_parts(connection: Connection, engine: Transactions, file: GridJobFile, reason: str) -> None:
    """Give up an undecided transaction, and ask for the end of parts that may have started."""
    if file.transaction is not None:
        engine.give_up(connection, file.transaction.id, reason)
    broker_parts.ask_end(connection, file.names, reason)


def end(connection: Connection, file: GridJobFile) -> None:
    """Note that all parts of a job have ended, and how."""
    failed = next((row for row in file.rows if row.exit_status is None), None)
    job = [file.job.id]
    if failed is not None:
        reason = f"its part on cluster {failed.cluster} failed" + (f": {failed.message}" if failed.message else "")
        broker_jobs.move(connection, job, GridJobState.ERROR, reason)
        return
    status = next((row.exit_status for row in file.rows if row.exit_status), 0)
    ended = max((row.ended for row in file.rows if row.ended is not None), default=None)
    broker_jobs.move(connection, job, GridJobState.TERMINATED, ended=ended, status=status)
