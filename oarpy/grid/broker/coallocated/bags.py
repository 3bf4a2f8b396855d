"""Bags of tasks over clusters: composed of the offers of clusters, promised, and told when they are done.

::

    Submitted --clusters make offers--> composed, promised by all --> Mapped --a task starts--> Running --> over
        ^                                     |                        |                          |
        '--- an offer is worse than it was ---'     tasks of a lost cluster are composed anew ----'

What is to be done follows from the rows alone, but for awards that are being prepared: these are given up when the
broker is killed.

0. If a bag has a profile, clusters first measure how long a task takes. Then offers say when tasks are expected to
   be done, besides by when they can be promised.
1. Tasks that no cluster has, had, or is requested to take are open: all of them at first. Clusters make offers for
   them. A cluster that tells of a newer plan, while others are awaited, is asked anew. The core shares tasks out, and
   each part is prepared, a bag of its cluster with the offer's end as deadline.
2. An offer that is worse by now gives the award up. After some rounds clusters may be late: then the best offers are
   taken.
3. When all clusters that have tasks know of the decision, the promise is told: the latest end of the parts. A cluster
   that is lost before keeps it back only until its tasks are taken away.
4. Clusters tell when their parts are done as they plan now. The latest of these is told to all that have a part, with a
   number. If a message gets lost, the last completion is told again until it is known.
5. A cluster that is lost for long, or has nothing of its tasks, has them taken away: others get them if they may run
   twice, else they are lost. Such tasks wait for room, be it after the promise; the other tasks go on.

What is always true: a task has one copy that can start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from random import Random

from oarpy.grid.broker.acts import Hold, Prepared, Terms
from oarpy.grid.broker.coallocated.bag_offers import OffersFound, ask_again, ask_for_offers, task_request
from oarpy.grid.broker.coallocated.bag_profiles import ProfilesFound, take_profiles
from oarpy.grid.broker.coallocated.deadline_jobs import ANEW, MODULE, usable
from oarpy.grid.broker.coallocated.job_files import GridJobFile
from oarpy.grid.broker.conversations import CallBatch, ClusterCall, Conversation, Conversations
from oarpy.grid.broker.decisions import DrivenCore
from oarpy.grid.broker.transactions import Confirmed, Transactions, note_prepared, part_name
from oarpy.grid.calls.parts import BagCompletion, BagPart, GridPart
from oarpy.grid.calls.table import CallRefused, ClusterSilent, TellCompletions
from oarpy.grid.core.bag_awards import AwardTasks, BagAsked, RefuseBag
from oarpy.grid.core.bags.composition import ClusterOffer
from oarpy.grid.core.broker_state import BrokerState, GridCluster
from oarpy.model.reasons import local_instant
from oarpy.model.states import GridJobState, GridPartState, GridTransactionState
from oarpy.store.database import Connection
from oarpy.store.grid import bags, broker_jobs, broker_parts, clusters, decisions, transactions
from oarpy.store.grid.bags import GridBagPartRow, GridBagRow
from oarpy.store.grid.broker_parts import GridPartRow
from oarpy.store.grid.clusters import GridClusterRow

_TTL = 60.0
"""Seconds after which a cluster drops a bag that was not committed."""
_ROUNDS, _MOST_ROUNDS = 3, 6
"""Rounds in which offers have to be kept, and rounds in all."""
_MOST_TIMES = 3
"""How often clusters are asked for offers before these are used, though plans have changed, or offers are over."""
_PAUSE = (0.2, 1.0)
"""Seconds, by chance between these, after which clusters are asked anew."""
_AGAIN = 10.0
"""Seconds after which clusters that did not answer are asked again."""
_PROFILE_AGAIN = 2.0
"""Seconds after which clusters that take a profile are asked for it again."""
_SAME = 1.0
"""Seconds by which two instants may differ that mean the same."""
_CHANGED = "offer_changed"
"""The code of a refusal that says that an offer is worse by now."""
_GIVEN_UP = (GridPartState.ABORTING, GridPartState.GONE)
_OVER = (*_GIVEN_UP, GridPartState.ENDED)


@dataclass(frozen=True, slots=True)
class BagRules:
    """``coordination``: clusters are told completions. After ``provider_lost`` seconds of silence a cluster is lost.

    The profile of a bag is awaited for ``profile_limit`` seconds since its submission.
    """

    coordination: bool = True
    provider_lost: float = 300.0
    profile_limit: float = 1800.0


@dataclass(frozen=True, slots=True)
class _Award:
    """Tasks that clusters are requested to take, by name of the part."""

    tasks: Mapping[str, Sequence[int]]


@dataclass(slots=True)
class GridBags:
    """The steps by which bags get their tasks run. ``tolerance``: seconds by which clocks of clusters may be off."""

    transactions: Transactions
    conversations: Conversations[object]
    rules: BagRules
    tolerance: float
    chance: Random = field(default_factory=Random)
    _awards: dict[int, _Award] = field(default_factory=dict)
    """What transactions that are being prepared are to give."""
    _next_look: dict[int, float] = field(default_factory=dict)
    _refused: dict[int, dict[str, str]] = field(default_factory=dict)
    """By job the clusters that do not take it, with why."""

    def forget(self) -> None:
        """Begin anew: awards that were being prepared are given up by :meth:`tend`."""
        self._awards.clear()
        self._next_look.clear()
        self._refused.clear()

    # What is due

    def tend(self, connection: Connection, file: GridJobFile, now: float) -> float:
        """Take the steps that are due for a bag; return when the next is due (epoch seconds), or infinity."""
        job = file.job
        undone = [row for row in transactions.of_job(connection, job.id) if row.state is not GridTransactionState.DONE]
        if job.delete_asked is not None:
            self._end(connection, file, f"deleted by {job.delete_by}")
            return inf
        for row in undone:
            if row.state is GridTransactionState.PREPARING and not self.transactions.is_preparing(row.id):
                self._give_up(connection, row.id, ANEW)
                return now
        bag = bags.of_job(connection, job.id)
        rows = broker_parts.of_jobs(connection, [job.id])
        due = self._take_away(connection, bag, file, rows, now)
        preparing = any(row.state is GridTransactionState.PREPARING for row in undone)
        if preparing or ("offers", job.id) in self.conversations or ("profile", job.id) in self.conversations:
            return due
        if open_tasks := bags.open_tasks(connection, bag):
            return min(due, self._place(connection, file, bag, open_tasks, now))
        parts = [part for part in bags.parts_of(connection, [job.id]) if part.live or part.settled]
        live = {part.part for part in parts if part.live}
        if not any(row.state is GridPartState.COMMITTING and row.name in live for row in rows):
            bag = self._promise(connection, bag, parts)
        if self.rules.coordination:
            due = min(due, self._coordinate(connection, bag, parts, rows, now))
        if any(part.live for part in parts) and file.job.state is GridJobState.RUNNING:
            return due
        return min(due, self._follow(connection, file, bag, rows, now))

    def _place(
        self, connection: Connection, file: GridJobFile, bag: GridBagRow, tasks: Sequence[int], now: float
    ) -> float:
        """Have clusters make offers for tasks that have no place."""
        due = self._next_look.get(file.job.id, now)
        if due > now:
            return due
        self._next_look[file.job.id] = now + _AGAIN
        if bag.profile and bag.profiled is None:
            limit = self.rules.profile_limit
            taking = take_profiles(usable(connection), file.job, file.components[0], bag.profile, limit, self.tolerance)
            self.conversations.begin(("profile", file.job.id), taking)
            return inf
        promised = bag.promise is not None
        request = bag_asked(file.job.id, bag, len(tasks), file.components[0].procs, promised=promised)
        refused = self._refused.get(file.job.id, {})
        look = ask_for_offers(
            usable(connection), file.job, file.components[0], request, refused, self.tolerance, now, bag.seconds
        )
        self.conversations.begin(("offers", file.job.id), look)
        return inf

    def profiles_found(self, connection: Connection, file: GridJobFile, found: ProfilesFound, now: float) -> None:
        """Take in the profile of a bag, once all clusters have told it or it is late."""
        job = file.job
        late = now >= job.submitted + self.rules.profile_limit
        if found.measuring and not late:
            self._next_look[job.id] = now + _PROFILE_AGAIN
            if bags.of_job(connection, job.id).rounds == 0:
                broker_jobs.note(connection, [job.id], f"its profile is taken on {', '.join(found.measuring)}")
            return
        bags.note_profiled(connection, job.id, found.seconds, found.missing)
        self._next_look.pop(job.id, None)

    def _promise(self, connection: Connection, bag: GridBagRow, parts: Sequence[GridBagPartRow]) -> GridBagRow:
        """Tell by when a bag is done: all clusters know of their parts. It is later where tasks had to go elsewhere."""
        ends = [part.promised for part in parts if part.promised is not None]
        if not ends or (bag.promise is not None and max(ends) < bag.promise + _SAME):
            return bag
        bags.promise(connection, bag.job, max(ends))
        if bag.promise is not None:
            text = f"it is done by {local_instant(max(ends))}, not by {local_instant(bag.promise)}: a cluster was lost"
            broker_jobs.note(connection, [bag.job], text)
        return bags.of_job(connection, bag.job)

    # When it is done

    def _coordinate(
        self,
        connection: Connection,
        bag: GridBagRow,
        parts: Sequence[GridBagPartRow],
        rows: Sequence[GridPartRow],
        now: float,
    ) -> float:
        """Tell clusters when a bag is done over all of them, as far as they do not know."""
        where = {row.name: row for row in rows}
        ends = [end for part in parts if (end := end_of_tasks(part, where[part.part])) is not None]
        if not ends or bag.promise is None:
            return inf
        expected, version = max(ends), bag.version
        if bag.expected is None or abs(expected - bag.expected) >= _SAME:
            bags.expect(connection, bag.job, expected)
            version += 1
        untold = [part for part in parts if part.live and part.told < version and where[part.part].end_asked is None]
        due = inf
        for part in untold:
            name = ("tell", bag.job, part.part)
            if name in self.conversations:
                continue
            if (at := self._next_look.get(bag.job, now)) > now:
                due = min(due, at)
                continue
            completion = BagCompletion(part.part, expected, version)
            self.conversations.begin(name, _tell(where[part.part].cluster, completion))
        return due

    def told(self, connection: Connection, job: int, part: str, version: int, now: float) -> None:
        """Take in that a cluster knows a version of a completion; 0: it does not answer."""
        if version:
            bags.note_told(connection, part, version)
        else:
            self._next_look[job] = now + _AGAIN

    def _follow(
        self, connection: Connection, file: GridJobFile, bag: GridBagRow, rows: Sequence[GridPartRow], now: float
    ) -> float:
        """Let the job run with its first task, and be over with its last one."""
        job = [file.job.id]
        started = min((row.started for row in rows if row.started is not None), default=None)
        if file.job.state is GridJobState.MAPPED and started is not None:
            broker_jobs.move(connection, job, GridJobState.RUNNING, started=started)
            return now
        tasks = bags.tasks_of(connection, file.job.id)
        if len(tasks) < bag.tasks or any(task.state in ("Asked", "Live") for task in tasks):
            return inf
        lost = [task.task for task in tasks if task.state == "Lost"]
        failed = [task for task in tasks if task.state == "Failed"]
        words = [f"{_tasks(lost)} lost with a cluster"] if lost else []
        words += [f"{_tasks([task.task for task in failed])} failed"] if failed else []
        ended = max((row.ended for row in rows if row.ended is not None), default=None)
        if lost or started is None:
            broker_jobs.move(connection, job, GridJobState.ERROR, "; ".join(words)[:1000], ended=ended)
        else:
            status = next((task.exit_status for task in failed if task.exit_status), 1 if failed else 0)
            text = "; ".join(words)[:1000]
            broker_jobs.move(connection, job, GridJobState.TERMINATED, text, ended=ended, status=status)
        return inf

    # What is lost

    def _take_away(
        self, connection: Connection, bag: GridBagRow, file: GridJobFile, rows: Sequence[GridPartRow], now: float
    ) -> float:
        """Take tasks away from clusters that are lost, or have nothing of them; return when one may be lost.

        A transaction may have been given up by another module while no conversation here waited for its answers.
        """
        silent = {row.name: row.silent_since for row in clusters.every(connection) if row.silent_since is not None}
        parts = bags.parts_of(connection, [bag.job])
        live = {part.part for part in parts if part.live}
        requested = {part.part for part in parts if part.asked}
        due = inf
        for row in rows:
            if row.name in requested and row.state in _GIVEN_UP and row.transaction not in self._awards:
                bags.move(connection, [row.name], ["Asked"], "Gone", row.message)
            if row.name not in live:
                continue
            since = silent.get(row.cluster, inf)
            if row.state in _OVER:
                reason = row.message or "its cluster has nothing of it"
                self._lose(connection, file, row, reason)
            elif since + self.rules.provider_lost <= now:
                self._lose(connection, file, row, f"cluster '{row.cluster}' is lost")
                broker_parts.ask_end(connection, [row.name], "its cluster was lost: its tasks are given up there")
            else:
                due = min(due, since + self.rules.provider_lost)
        return due

    def _lose(self, connection: Connection, file: GridJobFile, row: GridPartRow, reason: str) -> None:
        """Let tasks go elsewhere if they may run twice; the others are lost.

        Tasks of which no start was heard may have begun all the same, if their cluster was restored from a dump.
        """
        again = "idempotent" in file.components[0].types
        bags.move(connection, [row.name], ["Live"], "Gone" if again else "Lost", reason)

    def _end(self, connection: Connection, file: GridJobFile, reason: str) -> None:
        """End a bag and all that it has on clusters."""
        job = file.job.id
        self.conversations.drop(("offers", job))
        self.conversations.drop(("profile", job))
        for transaction in transactions.of_job(connection, job):
            self._awards.pop(transaction.id, None)
            self.transactions.give_up(connection, transaction.id, reason)
        rows = broker_parts.of_jobs(connection, [job])
        broker_parts.ask_end(connection, [row.name for row in rows if row.state not in _OVER], reason)
        bags.move(connection, [row.name for row in rows], ["Asked", "Live"], "Gone", reason)
        broker_jobs.move(connection, [job], GridJobState.ERROR, reason[:1000])

    # Where its tasks go

    def offers_found(self, connection: Connection, file: GridJobFile, offers: OffersFound, now: float) -> None:
        """Share tasks out by the offers of clusters, and ask for them.

        Clusters that told of a newer plan meanwhile, or whose offers are over, are asked anew before, some times.
        """
        bag = bags.of_job(connection, file.job.id)
        tasks = bags.open_tasks(connection, bag)
        if file.job.delete_asked is not None or len(tasks) != offers.told.bag.tasks:
            return
        known = usable(connection)
        offers = offers.of(known)
        if (outdated := offers.outdated(known, now)) and offers.times < _MOST_TIMES:
            rows = [row for row in known if row.name in outdated]
            again = ask_again(rows, file.job, file.components[0], offers, now)
            self.conversations.begin(("offers", file.job.id), again)
            return
        core = DrivenCore(BrokerState(tuple(GridCluster(row.name, row.procs or 0, row.speed) for row in known)))
        (action,) = core.tell(offers.told, now)
        taken = core.taken()
        decisions.add(connection, MODULE, now, taken.state, taken.events, taken.actions)
        text = "; ".join(f"{name} {words}" for name, words in offers.words.items()) or "no cluster is in use"
        if isinstance(action, AwardTasks):
            bags.note_look(connection, file.job.id, action.policy, _composed(offers, action))
            self._ask(connection, file, bag, offers, action.parts, tasks, known)
            return
        assert isinstance(action, RefuseBag)
        bags.note_look(connection, file.job.id, offers.policy, offers.words)
        if action.end is not None:
            self._end(connection, file, f"it would be done by {local_instant(action.end)}, after its deadline")
        elif offers.silent or bag.promise is not None:
            broker_jobs.note(connection, [file.job.id], f"no offers yet: {text}"[:1000])
        else:
            self._end(connection, file, f"no offers for {len(tasks)} tasks: {text}")

    def _ask(
        self,
        connection: Connection,
        file: GridJobFile,
        bag: GridBagRow,
        offers: OffersFound,
        parts: Sequence[ClusterOffer],
        tasks: Sequence[int],
        known: Sequence[GridClusterRow],
    ) -> None:
        """Begin to have parts prepared."""
        standing = [row.component for row in broker_parts.of_jobs(connection, [bag.job]) if row.state not in _OVER[:2]]
        first = max(standing, default=-1) + 1
        bags.make_room(connection, bag.job, first + len(parts))
        rows = {row.name: row for row in known}
        must = bag.strict and bag.promise is None
        strict = bag.policy != "slots" and (must or bag.rounds < _ROUNDS)
        shares: dict[str, Sequence[int]] = {}

        def plan(transaction: str) -> list[Hold]:
            acts, given = [], 0
            for number, part in enumerate(parts, first):
                mine = tasks[given : given + part.tasks]
                given += part.tasks
                wanted = offers.taken(part, mine, strict=strict)
                name = part_name(bag.job, number, transaction)
                grid_part = _part(file, rows[part.provider], name, number, wanted)
                acts.append(Hold(bag.job, number, part.provider, grid_part))
                shares[name] = mine
            return acts

        number = self.transactions.begin(connection, "reserve", bag.job, Terms(lambda: _TTL), plan)
        bags.begin_parts(connection, bag.job, shares)
        self._awards[number] = _Award(shares)

    def held(self, connection: Connection, file: GridJobFile, transaction: int, result: Prepared, now: float) -> None:
        """Decide for tasks that all clusters have prepared; have them composed anew otherwise, some times."""
        award = self._awards.pop(transaction, None)
        if award is None:
            return
        note_prepared(connection, transaction, result)
        if not result.failure and transactions.decide(connection, transaction):
            for name, part in result.parts.items():
                if part.end is not None:
                    bags.note_promised(connection, name, part.end)
            bags.move(connection, list(award.tasks), ["Asked"], "Live")
            if file.job.state is GridJobState.SUBMITTED:
                broker_jobs.move(connection, [file.job.id], GridJobState.MAPPED, "")
            return
        reason = result.failure or "a part was lost"
        self._give_up(connection, transaction, reason)
        self._heed(file.job.id, result)
        bags.note_round(connection, file.job.id)
        bag = bags.of_job(connection, file.job.id)
        if bag.rounds >= _MOST_ROUNDS and bag.promise is None:
            self._end(connection, file, reason)
            return
        broker_jobs.note(connection, [file.job.id], reason[:1000])
        self._next_look[file.job.id] = now + self.chance.uniform(*_PAUSE)

    def confirmed(self, connection: Connection, confirmed: Confirmed) -> None:
        """Open the tasks of an award that lapsed on a cluster before it heard of the decision: none of them began."""
        if confirmed.dropped and confirmed.undone:
            rows = broker_parts.of_transaction(connection, confirmed.transaction)
            names = [row.name for row in rows if row.cluster == confirmed.cluster]
            bags.move(connection, names, ["Live"], "Gone", confirmed.refusal)

    def _heed(self, job: int, result: Prepared) -> None:
        """Remember clusters that refused for another reason than that an offer is worse by now."""
        for cluster, error in result.failures:
            if isinstance(error, CallRefused) and error.code != _CHANGED:
                self._refused.setdefault(job, {})[cluster] = str(error)

    def _give_up(self, connection: Connection, transaction: int, reason: str) -> None:
        self._awards.pop(transaction, None)
        self.transactions.give_up(connection, transaction, reason)
        names = [part.name for part in broker_parts.of_transaction(connection, transaction)]
        bags.move(connection, names, ["Asked"], "Gone", reason)


def bag_asked(
    job: int, bag: GridBagRow | bags.NewGridBag, tasks: int, procs: int, *, promised: bool = False
) -> BagAsked:
    """Return so many tasks of a bag, as the core knows them; those of a ``promised`` bag may be late."""
    return BagAsked(job, tasks, procs, bag.deadline, bag.strict and not promised, bag.policy)


def _part(file: GridJobFile, row: GridClusterRow, name: str, number: int, wanted: BagPart) -> GridPart:
    return GridPart(
        name,
        "bag",
        task_request(file.job, file.components[0], row),
        file.job.program,
        file.job.directory,
        file.job.job_name,
        environment={"OAR_GRID_JOB_ID": str(file.job.id), "OAR_GRID_COMPONENT": str(number)},
        bag=wanted,
    )


def _composed(offers: OffersFound, action: AwardTasks) -> dict[str, str]:
    """Return the answers of clusters, and the tasks that they get."""
    given = Counter({part.provider: part.tasks for part in action.parts})
    return {name: f"{words}; it gets {given[name]}" if given[name] else words for name, words in offers.words.items()}


def end_of_tasks(part: GridBagPartRow, row: GridPartRow) -> float | None:
    """Return when the last task of a part is done (epoch seconds), None where none of its tasks counts any more.

    Of a part that was taken away from a lost cluster only tasks count that were over before.
    """
    if part.live or (part.settled and row.end_asked is None):
        return part.done_by
    return row.ended if part.settled else None


def _tell(cluster: str, completion: BagCompletion) -> Conversation[object]:
    """Tell a cluster when a bag is done over all; return the version that it knows then, 0 if it is silent."""
    call = TellCompletions([completion], key=f"{completion.part}:completion:{completion.version}")
    (answer,) = yield CallBatch([ClusterCall(cluster, call)])
    return 0 if isinstance(answer, ClusterSilent) else completion.version


def _tasks(numbers: Sequence[int]) -> str:
    """Return numbers of tasks for people: ``2 tasks (4, 7)``."""
    shown = ", ".join(map(str, numbers[:20])) + (", ..." if len(numbers) > 20 else "")
    return f"{len(numbers)} task{'s' if len(numbers) > 1 else ''} ({shown})"
