"""Jobs of one program over clusters that the broker chooses: placed in the free slots of clusters, and reserved.

::

    Submitted --clusters are asked--> placed, held by all --> Mapped --its date, all parts run--> Running --> over
        ^                                                |        |  ^ |
        '--- a cluster refuses, or a part is lost -------'--------'  '-' a job ended early: amended, if it ends sooner

The program runs in the first part; the others hold their hosts for it, until it ends. The next step follows from the
rows alone, except for places that are being prepared: these are given up when the broker is killed.

Beginning, where there are several parts:

1. From its date on, all clusters but the first get the call to begin their parts. They answer when these run, and
   where.
2. When all parts run, and the first cluster answers, the broker notes that the program begins. Only then the first
   cluster gets the call, with all hosts.
3. Until its own part runs, a cluster may refuse. Then all clusters are asked again, for ``begin_time`` after the date
   at most.

A job whose processes are mapped (``mapped_programs``) is placed by the rates of its program on types of nodes. Its
parts ask for cores of these types, and have their processes.

What is always true: a program that may have begun is not begun again, even if later answers ask for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, inf
from random import Random

import structlog
from msgspec import UNSET, structs

from oarpy.grid.broker.acts import Act, Amend, Freeze, Hold, Prepared, Terms
from oarpy.grid.broker.coallocated.common_starts import ClaimTimes, at_start
from oarpy.grid.broker.coallocated.deadline_jobs import ANEW, MODULE, end_parts, usable
from oarpy.grid.broker.coallocated.free_slots import (
    PATIENCE,
    SlotsFound,
    look_for_slots,
    parallel_request,
    part_request,
)
from oarpy.grid.broker.coallocated.job_files import GridJobFile
from oarpy.grid.broker.coallocated.mapped_programs import (
    PlacedParts,
    ProgramFound,
    look_for_program,
    mapped_program,
    measurers,
    noted_map,
    placed_parts,
    stop_measuring,
    transfers,
)
from oarpy.grid.broker.coallocated.moved_parts import MovedParts, holds_only_hosts
from oarpy.grid.broker.conversations import CallBatch, ClusterCall, Conversation, Conversations
from oarpy.grid.broker.decisions import DrivenCore
from oarpy.grid.broker.transactions import Transactions, note_prepared, part_name, part_origin
from oarpy.grid.calls.parts import ClusterDescription, GridPart, PreparedPart
from oarpy.grid.calls.table import Begin, Describe
from oarpy.grid.core.broker_state import BrokerState, GridCluster
from oarpy.grid.core.coallocation.common_start import CommonPlace
from oarpy.grid.core.exchanges import Action, Event
from oarpy.grid.core.mapped_programs import (
    AmendMapped,
    MappedProgram,
    ProgramEndedEarly,
    ProgramSlotsTold,
    ReserveMapped,
)
from oarpy.grid.core.metajobs import AmendParts, EndedEarly, ParallelJob, ReserveParts, SlotsTold
from oarpy.model.states import GridJobState, GridPartState, GridTransactionState
from oarpy.store.database import Connection
from oarpy.store.grid import broker_jobs, broker_parts, clusters, decisions, metajobs, programs, transactions
from oarpy.store.grid.broker_parts import GridPartRow
from oarpy.store.grid.clusters import GridClusterRow
from oarpy.store.grid.metajobs import MetajobRow, NewShift, ShiftRow
from oarpy.store.grid.programs import GridProgramRow
from oarpy.store.platform import cluster_links

log = structlog.get_logger()

_TTL = 60.0
"""Seconds after which a cluster drops a reservation that was not committed."""
_PREPARED_IN = 10.0
"""Seconds that clusters may take to hold a new place."""
_FAR = 60.0
"""Seconds before its date from which on clusters are asked to reserve one after the other."""
_REFUSALS, _PLACINGS = 3, 2
"""How often a job is placed again when a cluster refuses, and how often when its parts did not come together."""
_PAUSE = (0.2, 1.0)
"""Seconds, random between these, after which clusters are asked again."""
_AGAIN = 10.0
"""Seconds after which clusters that did not answer are asked again."""
_MEASURED = 2.0
"""Seconds after which clusters that measure rates are asked again."""
_NO_RATES = "no type of nodes has rates of all its sizes"
_UNMAPPED = f"{_NO_RATES}: it runs without a map"
_HOSTS_ONLY = "exec sleep infinity"
"""The command of parts that hold hosts for the program of the first part."""
_STARTER_OF_MPI = {"OMPI_MCA_plm_rsh_agent": "oargridsh"}
"""The variable that has ``mpirun`` begin on the hosts of all parts: clusters have other launchers do so, too."""
_OVER = (GridPartState.ABORTING, GridPartState.GONE, GridPartState.ENDED)
_BROKERS_TURN = 2.0
"""Seconds that the broker has to end parts that did not begin in time, before their clusters do."""
_LOOK, _TOLD = 0.25, 5.0
"""Seconds between two questions whether parts are ready to begin, and after which a begun program is looked at."""


@dataclass(frozen=True, slots=True)
class PartsReady:
    """The answers to the call to begin parts: the hosts of running parts, by part; ``all_run``: every part was ready.

    ``program``: the call went to the part of the program alone. ``maps`` has lines ``host core size processes`` of
    parts, as far as their processes are mapped.
    """

    hosts: Mapping[str, Sequence[str]]
    all_run: bool
    program: bool
    maps: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MetajobRules:
    """``lead``: seconds to the earliest start that is given; ``threshold``: seconds that a move must gain.

    ``begin_time``: seconds after its start within which all parts of a job are to run. For programs whose processes are
    mapped, ``transfer``: seconds to pass on the result of a process between clusters; ``transfer_size``: the bytes of
    one, for links that are described; ``margin``: by how many percent a walltime exceeds the prediction.
    """

    lead: float = 15.0
    threshold: float = 60.0
    begin_time: float = 60.0
    transfer: float = 0.8
    margin: int = 10
    transfer_size: int = 500_000


@dataclass(slots=True)
class Metajobs:
    """The steps of these jobs. ``tolerance``: seconds by which clocks of clusters may be off."""

    transactions: Transactions
    conversations: Conversations[object]
    rules: MetajobRules
    tolerance: float
    chance: Random = field(default_factory=Random)
    _places: dict[int, PlacedParts] = field(default_factory=dict)
    """The planned places of transactions that are being prepared."""
    _next_look: dict[int, float] = field(default_factory=dict)
    _next_stop: dict[tuple[str, int, str], float] = field(default_factory=dict)
    """When clusters that did not answer are told again that a job is over."""
    _hinted: dict[int, GridJobFile] = field(default_factory=dict)
    """Jobs that may have an earlier place, of those that this round has handled so far."""
    _looked_at: tuple[int, str] = (0, "")
    """The last job that was looked at for an earlier place, and the cluster where processors became idle."""

    def forget(self, connection: Connection) -> None:
        """Begin again: :meth:`tend` gives up acts that were being prepared, and jobs that may move are looked at."""
        self._places.clear()
        self._next_look.clear()
        self._next_stop.clear()
        self._hinted.clear()
        for row in usable(connection):
            metajobs.note_room(connection, row.name)

    # The steps that are due

    def tend(self, connection: Connection, file: GridJobFile, now: float) -> float:
        """Make the due steps of a job; return the time of the next step (epoch seconds), or infinity."""
        job = file.job
        if job.delete_asked is not None:
            self._end(connection, file, f"deleted by {job.delete_by}")
            return inf
        if file.is_in(GridTransactionState.PREPARING) and not self.transactions.is_preparing(file.rows[0].transaction):
            self.transactions.give_up(connection, file.rows[0].transaction, ANEW)
            metajobs.settle_shift(connection, file.rows[0].transaction, "given up", ANEW)
            return now
        match job.state:
            case GridJobState.SUBMITTED:
                return self._submitted(connection, file, now)
            case GridJobState.MAPPED if self._is_changing(file):
                return inf
            case GridJobState.MAPPED:
                self._note_hint(connection, file, now)
                due = self._settle_move(connection, file, now)
                return self._starts(connection, file, now) if due is None else due
            case GridJobState.RUNNING:
                self._settle_move(connection, file, now)
                self._ends(connection, file)
        return inf

    def _is_changing(self, file: GridJobFile) -> bool:
        """Tell whether its parts are being amended: until the decision it has its old place."""
        return file.transaction is not None and file.transaction.kind == "amend" and file.transaction.committed is None

    def _note_hint(self, connection: Connection, file: GridJobFile, now: float) -> None:
        """Note that a job may have an earlier place, if no work on it is under way."""
        metajob = metajobs.of_job(connection, file.job.id)
        if not metajob.idle_on:
            return
        if metajob.operation == "rigid" or not self._is_time(file, now):
            metajobs.note_idle(connection, [file.job.id], "")
        elif file.transaction is None and all(row.state is GridPartState.WAITING for row in _present(file)):
            self._hinted[file.job.id] = file

    def _is_time(self, file: GridJobFile, now: float) -> bool:
        """Tell whether a move can be decided before its start."""
        return file.deadline > now + self.rules.lead + _PREPARED_IN

    def _submitted(self, connection: Connection, file: GridJobFile, now: float) -> float:
        """Have the job placed, when clusters have ended its former parts."""
        if file.is_in(GridTransactionState.PREPARING) or ("slots", file.job.id) in self.conversations:
            return inf
        if not self._are_lost(connection, file, _going(file), now):
            return inf
        if _has_run(_present(file)):
            broker_jobs.move(connection, [file.job.id], GridJobState.MAPPED, "")
            return now
        if _may_have_begun(connection, file):
            where = _present(file)[0].cluster
            self._end(connection, file, f"its program may have begun on cluster {where}: {file.job.message}"[:1000])
            return inf
        due = self._next_look.get(file.job.id, now)
        if due <= now:
            self._next_look[file.job.id] = now + _AGAIN
            self.conversations.begin(("slots", file.job.id), self._look(connection, file, now))
            return inf
        return due

    def _are_lost(self, connection: Connection, file: GridJobFile, rows: Sequence[GridPartRow], now: float) -> bool:
        """Tell whether ending parts need not be awaited: no cluster answers, and no program runs there."""
        if not rows:
            return True
        silent = {row.name for row in clusters.every(connection) if row.silent_since is not None}
        shifts = metajobs.shifts_of(connection, [file.job.id])
        old = [shift.old_start for shift in shifts if shift.transaction == rows[0].transaction]
        bound = max([file.deadline, *old]) + self.rules.begin_time
        idle = [row for row in rows if holds_only_hosts(row) or not _may_have_begun(connection, file)]
        return all(row.cluster in silent and (row in idle or now > bound + row.walltime) for row in rows)

    def _settle_move(self, connection: Connection, file: GridJobFile, now: float) -> float | None:
        """Make sure that a moved job has one place; return the time of the next step, None if it has one place."""
        parts = MovedParts.of(file.rows)
        if not parts.old:
            return None
        shift = _shift(connection, file.job.id, file.rows[0].transaction)
        if shift.outcome != "moved":
            return None
        if parts.came_to_nothing:
            reason = next((row.message for row in parts.made if row.message), "")
            if {row.cluster for row in parts.kept} == shift.old_parts.keys():
                self._take_back(connection, file, parts, shift, reason)
            else:
                self._release(connection, file, reason)
            return now
        if parts.stands:
            names = [row.name for row in parts.kept]
            broker_parts.set_aside(connection, names)
            broker_parts.ask_end(connection, names, "its job has another place")
            return None
        bound = shift.old_start + self.rules.begin_time
        return bound if now < bound and any(row.state is GridPartState.COMMITTING for row in parts.made) else None

    def _take_back(
        self, connection: Connection, file: GridJobFile, parts: MovedParts, shift: ShiftRow, reason: str
    ) -> None:
        """Give a job its old place back: all clusters let it go on there, and none has anything of the new place."""
        metajob = metajobs.of_job(connection, file.job.id)
        broker_parts.number(connection, {row.name: part_origin(row.name)[0] for row in parts.old})
        broker_jobs.set_deadline(connection, file.job.id, shift.old_start)
        metajobs.note_place(connection, file.job.id, shift.old_start, shift.old_end, moved=True)
        metajobs.note_parts(connection, metajob, [shift.old_parts[row.cluster] for row in parts.old])
        programs.take_back(connection, file.job.id)
        metajobs.take_back(connection, shift.transaction, reason)

    def _starts(self, connection: Connection, file: GridJobFile, now: float) -> float:
        """Make sure that all parts run soon after its date, or none of them."""
        rows = _present(file)
        times = ClaimTimes(start_bound=self.rules.begin_time)
        following = at_start(replace(file, rows=rows).parts, file.deadline, now, times)
        if following.act == "running":
            started = min(row.started for row in rows if row.started is not None)
            broker_jobs.move(connection, [file.job.id], GridJobState.RUNNING, "", started=started)
            return now  # short parts have ended already
        if following.act == "end all":
            self._release(connection, file, following.reason)
            return following.at
        return min(following.at, self._begins(connection, file, rows, now))

    def _begins(self, connection: Connection, file: GridJobFile, rows: Sequence[GridPartRow], now: float) -> float:
        """Have parts that wait for each other begin, from their date on; return the time of the next step."""
        job = file.job.id
        if len(rows) == 1 or ("begin", job) in self.conversations:
            return inf
        due = max(file.deadline, self._next_look.get(job, 0.0))
        if now < due:
            return due
        self.conversations.begin(("begin", job), _begin_hosts(rows))
        return inf

    def ready(self, connection: Connection, file: GridJobFile, ready: PartsReady, now: float) -> None:
        """Let the program begin when the parts with its hosts run; ask again until it runs."""
        job, rows = file.job.id, _present(file)
        if file.job.state is not GridJobState.MAPPED or not rows:
            return
        self._next_look[job] = now + (_TOLD if ready.program and ready.all_run else _LOOK)
        if ready.all_run and not ready.program:
            metajobs.note_begun(connection, job)
            broker_parts.note_hosts(connection, ready.hosts)
            others = [host for hosts in ready.hosts.values() for host in hosts]
            lines = [line for its in ready.maps.values() for line in its]
            self.conversations.begin(("begin", job), _begin_program(rows[0], others, lines))

    def _ends(self, connection: Connection, file: GridJobFile) -> None:
        """End the other parts when the program ends, and all parts when any other part dies.

        The program's end is the job's end.
        """
        rows = _present(file)
        program, job = rows[0], [file.job.id]
        over = [row for row in rows if row.state is GridPartState.ENDED]
        if over:
            reason = "its program has ended" if program in over else f"its part on cluster {over[0].cluster} has ended"
            broker_parts.ask_end(connection, file.names, reason)
        if program not in over:
            return
        ended = max((row.ended for row in over if row.ended is not None), default=None)
        dead = next((row for row in over if row.end_asked is None), program)
        if dead is program and program.exit_status is not None and not program.message:
            broker_jobs.move(connection, job, GridJobState.TERMINATED, ended=ended, status=program.exit_status)
            return
        reason = f"its part on cluster {dead.cluster} failed" + (f": {dead.message}" if dead.message else "")
        broker_jobs.move(connection, job, GridJobState.ERROR, reason, ended=ended)

    def _release(self, connection: Connection, file: GridJobFile, reason: str) -> None:
        """Give up all parts, and have the job placed once more, or end it."""
        row = metajobs.of_job(connection, file.job.id)
        if row.placings >= _PLACINGS:
            self._end(connection, file, reason)
            return
        self._let_go(connection, file, reason)
        broker_jobs.move(connection, [file.job.id], GridJobState.SUBMITTED, reason)

    def _end(self, connection: Connection, file: GridJobFile, reason: str) -> None:
        """End a job and all that it has on clusters."""
        self._let_go(connection, file, reason)
        broker_jobs.move(connection, [file.job.id], GridJobState.ERROR, reason)

    def _let_go(self, connection: Connection, file: GridJobFile, reason: str) -> None:
        """Give up the work under way for the job, and all that it has on clusters."""
        self.conversations.drop(("slots", file.job.id))
        self.conversations.drop(("begin", file.job.id))
        if file.transaction is not None:
            metajobs.settle_shift(connection, file.transaction.id, "given up", reason)
        end_parts(connection, self.transactions, file, reason)

    # Where it goes

    def _look(self, connection: Connection, file: GridJobFile, now: float) -> Conversation[object]:
        """Ask clusters for free processors for the job's parts."""
        metajob = metajobs.of_job(connection, file.job.id)
        return self._asked(connection, file, metajob, usable(connection), {}, now)

    def _asked(
        self,
        connection: Connection,
        file: GridJobFile,
        metajob: MetajobRow,
        rows: Sequence[GridClusterRow],
        own: Mapping[str, Sequence[str]],
        now: float,
    ) -> Conversation[object]:
        """Ask these clusters, also for rates if the job's processes are mapped. Its ``own`` parts count as free."""
        job, component = file.job, file.components[0]
        if (program := programs.live_of_job(connection, job.id)) is not None:
            if not own:
                programs.note_measured(connection, job.id, measurers(rows, job.user, metajob, self.tolerance))
            return look_for_program(rows, job, component, metajob, program, own, self.tolerance, now)
        return look_for_slots(rows, job, component, metajob, own, self.tolerance, now)

    def stop_measuring(self, connection: Connection, known: Sequence[GridClusterRow], now: float) -> float:
        """Tell clusters of jobs that are over, whose rates they may measure; return when some are asked again.

        Silent clusters hear it when they answer again.
        """
        names = {row.name for row in known if row.silent_since is None and "rate" in row.abilities}
        wake_at = inf
        for program in programs.measured_in_vain(connection):
            for cluster in program.clusters:
                name = ("stop", program.job, cluster)
                if cluster not in names or name in self.conversations:
                    continue
                due = self._next_stop.get(name, now)
                if due <= now:
                    self._next_stop[name] = now + _AGAIN
                    self.conversations.begin(name, stop_measuring(cluster, program.job, program.submitted))
                else:
                    wake_at = min(wake_at, due)
        return wake_at

    def stopped(self, connection: Connection, job: int, cluster: str, answer: object) -> None:
        """Note that a cluster knows that a job is over, unless it refuses or is silent: it is told again."""
        if answer is None:
            self._next_stop.pop(("stop", job, cluster), None)
            programs.measured_no_more(connection, job, cluster)

    def slots_found(
        self, connection: Connection, file: GridJobFile, slots: SlotsFound | ProgramFound, now: float
    ) -> None:
        """Place a job by the answers of clusters, or move it."""
        known = usable(connection)
        slots = slots.of(known)
        if file.job.state is GridJobState.MAPPED:
            self._moved_by(connection, file, slots, known, now)
            return
        if file.job.state is not GridJobState.SUBMITTED or file.job.delete_asked is not None:
            return
        metajob = metajobs.of_job(connection, file.job.id)
        if isinstance(slots, ProgramFound) and not self._is_rated(connection, file, metajob, slots, now):
            return
        placed = self._placed(connection, file, metajob, slots, known, now)
        if placed is not None:
            self._reserve(connection, file, metajob, placed, now)
            return
        text = "; ".join(f"{name} {words}" for name, words in slots.words.items()) or "no cluster is in use"
        if slots.silent:
            broker_jobs.note(connection, [file.job.id], f"no room yet: {text}"[:1000])
        else:
            self._end(connection, file, f"no room for {metajob.procs} processors: {text}"[:1000])

    def _placed(
        self,
        connection: Connection,
        file: GridJobFile,
        metajob: MetajobRow,
        slots: SlotsFound | ProgramFound,
        known: Sequence[GridClusterRow],
        now: float,
    ) -> PlacedParts | None:
        """Decide where a job goes; None without room."""
        ready = ceil(now + self.rules.lead)
        first = first_cluster(connection, file, metajob, known)
        metajobs.note_look(connection, file.job.id, first, slots.words)
        if isinstance(slots, SlotsFound):
            job = ParallelJob(file.job.id, parallel_request(file.job.walltime, metajob), first)
            (action,) = decide(connection, known, SlotsTold(job, slots.free, ready), now)
            return PlacedParts(action.place) if isinstance(action, ReserveParts) else None
        row = programs.of_jobs(connection, [file.job.id])[file.job.id]
        (action,) = decide(
            connection, known, ProgramSlotsTold(self._program(connection, row, metajob, first), slots.told, ready), now
        )
        if not isinstance(action, ReserveMapped):
            return None
        if action.mapped.fault:
            log.error("a map by the usual model", job=file.job.id, reason=action.mapped.fault)
        return placed_parts(row, action.mapped, slots.conditions)

    def _program(self, connection: Connection, row: GridProgramRow, metajob: MetajobRow, first: str) -> MappedProgram:
        """Return a program as the core knows it."""
        rules = self.rules
        links = transfers(cluster_links.links(connection), rules.transfer_size)
        return mapped_program(row, metajob, first, transfer=rules.transfer, margin=rules.margin, links=links)

    def _is_rated(
        self, connection: Connection, file: GridJobFile, metajob: MetajobRow, found: ProgramFound, now: float
    ) -> bool:
        """Tell whether a program can be placed by rates; if not, ask again later, or go on without a map, or end it."""
        job = [file.job.id]
        text = "; ".join(f"{name} {words}" for name, words in found.words.items()) or "no cluster is in use"
        if found.measuring or (found.silent and not found.told):
            metajobs.note_look(connection, file.job.id, metajob.first, found.words)
            why = "its rates are measured first" if found.measuring else "no rates yet"
            broker_jobs.note(connection, job, f"{why}: {text}"[:1000])
            self._next_look[file.job.id] = now + (_MEASURED if found.measuring else _AGAIN)
            return False
        if found.told:
            return True
        metajobs.note_look(connection, file.job.id, metajob.first, found.words)
        if programs.of_jobs(connection, job)[file.job.id].own_walltime:
            programs.give_up(connection, file.job.id)
            broker_jobs.note(connection, job, f"{_UNMAPPED}, with the walltime that its user gave: {text}"[:1000])
            self._next_look[file.job.id] = now
        else:
            self._end(connection, file, f"{_NO_RATES}, and it was given no walltime: {text}"[:1000])
        return False

    def _reserve(
        self, connection: Connection, file: GridJobFile, metajob: MetajobRow, placed: PlacedParts, now: float
    ) -> None:
        """Begin to reserve its parts."""
        place = placed.place
        broker_parts.set_aside(connection, [row.name for row in _going(file)])
        metajobs.make_room(connection, file.job.id, len(place.parts))

        def plan(transaction: str) -> list[Hold]:
            parts = parts_of(file, metajob, placed, transaction, self.rules.begin_time)
            return [Hold(file.job.id, number, cluster, part) for number, (cluster, part) in enumerate(parts)]

        terms = Terms(lambda: _TTL, place.start, rounds=2 if place.start - now >= _FAR else 1)
        number = self.transactions.begin(connection, "reserve", file.job.id, terms, plan)
        self._places[number] = placed

    def held(self, connection: Connection, file: GridJobFile, transaction: int, result: Prepared, now: float) -> None:
        """Decide for a job whose parts are all reserved; otherwise have it placed again, a few times."""
        if file.job.state is GridJobState.MAPPED:
            self._amended(connection, file, transaction, result)
            return
        placed = self._places.pop(transaction, None)
        if placed is None or not file.rows or file.rows[0].transaction != transaction:
            return
        place = placed.place
        metajob = metajobs.of_job(connection, file.job.id)
        note_prepared(connection, transaction, result)
        if not result.failure and transactions.decide(connection, transaction, place.start):
            broker_jobs.set_deadline(connection, file.job.id, place.start)
            metajobs.note_place(connection, file.job.id, place.start, place.end)
            metajobs.note_parts(connection, metajob, list(place.parts.values()))
            _note_map(connection, file.job.id, placed)
            broker_jobs.move(connection, [file.job.id], GridJobState.MAPPED, _shared_names(result.parts.values()))
            return
        reason = result.failure or "a part was lost"
        if metajob.refusals + 1 < _REFUSALS:
            self.transactions.give_up(connection, transaction, reason)
            metajobs.note_refusal(connection, file.job.id)
            broker_jobs.note(connection, [file.job.id], reason[:1000])
            self._next_look[file.job.id] = now + self.chance.uniform(*_PAUSE)
        else:
            self._end(connection, file, reason)

    # Earlier places

    def next_to_move(self, connection: Connection) -> GridJobFile | None:
        """Return the first, by start, of the jobs that may have an earlier place; None while another one moves.

        Clusters know the outcome of the move before.
        """
        hinted, self._hinted = self._hinted, {}
        if not hinted or ("slots", self._looked_at[0]) in self.conversations:
            return None
        if any(transaction.kind == "amend" for transaction in transactions.open_of(connection, MODULE)):
            return None
        return min(hinted.values(), key=lambda file: (file.deadline, file.job.id))

    def begin_move(self, connection: Connection, file: GridJobFile, now: float) -> None:
        """Ask clusters for an earlier place of a job."""
        metajob = metajobs.of_job(connection, file.job.id)
        self._looked_at = file.job.id, metajob.idle_on
        metajobs.note_idle(connection, [file.job.id], "")
        self.conversations.begin(("slots", file.job.id), self._second_look(connection, file, metajob, now))

    def _second_look(
        self, connection: Connection, file: GridJobFile, metajob: MetajobRow, now: float
    ) -> Conversation[object]:
        """Ask clusters for their free slots, the job's own parts included.

        These are the job's own clusters, or all clusters if it may be remapped.
        """
        own: dict[str, Sequence[str]] = {row.cluster: [row.name] for row in _present(file)}
        rows = [row for row in usable(connection) if row.name in own or metajob.operation == "remap"]
        return self._asked(connection, file, metajob, rows, own, now)

    def _moved_by(
        self,
        connection: Connection,
        file: GridJobFile,
        slots: SlotsFound | ProgramFound,
        known: Sequence[GridClusterRow],
        now: float,
    ) -> None:
        """Move a job by the answers of clusters, if it ends enough earlier.

        All of its present clusters must have answered.
        """
        metajob = metajobs.of_job(connection, file.job.id)
        where, rows = self._looked_at[1], _present(file)
        waits = (
            self._is_time(file, now)
            and file.transaction is None
            and all(row.state is GridPartState.WAITING for row in rows)
        )
        locked = broker_parts.lock(connection, [row.name for row in rows])
        waits = waits and all(row.state is GridPartState.WAITING and row.end_asked is None for row in locked)
        answered = (slots.free if isinstance(slots, SlotsFound) else slots.told).keys()
        if not (waits and where in answered and {row.cluster for row in rows} <= answered and metajob.end):
            return
        parts = {row.cluster: component.procs for row, component in zip(rows, file.components, strict=True)}
        old = CommonPlace(file.deadline, metajob.end, parts)
        if (moved := self._brought_forward(connection, file, metajob, slots, old, known, now)) is not None:
            new = moved.place
            before, after = (old.start, old.end, parts), (new.start, new.end, new.parts)
            shift = NewShift(file.job.id, metajob.operation, where, *before, *after)
            self._amend(connection, file, metajob, moved, shift)

    def _brought_forward(
        self,
        connection: Connection,
        file: GridJobFile,
        metajob: MetajobRow,
        slots: SlotsFound | ProgramFound,
        old: CommonPlace,
        known: Sequence[GridClusterRow],
        now: float,
    ) -> PlacedParts | None:
        """Decide whether a job gets another place, and which."""
        ready, where = ceil(now + self.rules.lead), self._looked_at[1]
        first, threshold = first_cluster(connection, file, metajob, known), self.rules.threshold
        if isinstance(slots, SlotsFound):
            job = ParallelJob(file.job.id, parallel_request(file.job.walltime, metajob), first)
            event = EndedEarly(where, job, old, metajob.operation, slots.free, ready, threshold)
            actions = decide(connection, known, event, now)
            return PlacedParts(actions[0].place) if actions and isinstance(actions[0], AmendParts) else None
        row = programs.of_jobs(connection, [file.job.id])[file.job.id]
        if (mapped := noted_map(row, old)) is None:
            return None
        program = self._program(connection, row, metajob, first)
        early = ProgramEndedEarly(where, program, mapped, metajob.operation, slots.told, ready, threshold)
        actions = decide(connection, known, early, now)
        if not actions or not isinstance(actions[0], AmendMapped):
            return None
        return placed_parts(row, actions[0].mapped, slots.conditions)

    def _amend(
        self, connection: Connection, file: GridJobFile, metajob: MetajobRow, placed: PlacedParts, shift: NewShift
    ) -> None:
        """Begin to give its parts their new places.

        A part that goes elsewhere keeps its old place until the decision.
        """
        place = placed.place
        metajobs.make_room(connection, file.job.id, len(place.parts))
        old = {row.cluster: row.name for row in _present(file)}

        def plan(transaction: str) -> list[Act]:
            parts = parts_of(file, metajob, placed, transaction, self.rules.begin_time)
            acts: list[Act] = [
                Amend(file.job.id, number, cluster, old[cluster], part)
                if cluster in old
                else Hold(file.job.id, number, cluster, part)
                for number, (cluster, part) in enumerate(parts)
            ]
            left = [cluster for cluster in old if cluster not in place.parts]
            request = parts[0][1].request
            return [*acts, *(Freeze(cluster, old[cluster], request) for cluster in left)]

        number = self.transactions.begin(connection, "amend", file.job.id, Terms(lambda: _TTL, place.start), plan)
        metajobs.begin_shift(connection, shift, number)
        self._places[number] = placed

    def _amended(self, connection: Connection, file: GridJobFile, transaction: int, result: Prepared) -> None:
        """Decide for a job whose new place is held by all its clusters; otherwise the job stays where it is."""
        placed = self._places.pop(transaction, None)
        if placed is None:
            return
        place = placed.place
        metajob = metajobs.of_job(connection, file.job.id)
        shift = _shift(connection, file.job.id, transaction)
        note_prepared(connection, transaction, result)
        if result.failure or not transactions.decide(connection, transaction, place.start):
            reason = result.failure or "a part did not wait any more"
            self.transactions.give_up(connection, transaction, reason)
            metajobs.settle_shift(connection, transaction, "given up", reason)
            return
        broker_jobs.set_deadline(connection, file.job.id, place.start)
        metajobs.note_place(connection, file.job.id, place.start, place.end, moved=True)
        metajobs.note_parts(connection, metajob, list(place.parts.values()))
        _note_map(connection, file.job.id, placed)
        metajobs.settle_shift(connection, transaction, "moved")
        metajobs.note_room(connection, shift.idle_on)


def _present(file: GridJobFile) -> list[GridPartRow]:
    """Return the parts of the job's present place, the part of the program first."""
    return MovedParts.of(file.rows).present


def _may_have_begun(connection: Connection, file: GridJobFile) -> bool:
    """Tell whether the program of a job ran in its last place, or may have."""
    rows = _present(file)
    if not rows or holds_only_hosts(rows[0]):
        return False
    if rows[0].started is not None or rows[0].state in _OVER:
        return rows[0].started is not None
    return len(rows) == 1 or metajobs.of_job(connection, file.job.id).begun is not None


def _has_run(rows: Sequence[GridPartRow]) -> bool:
    """Tell whether all parts had started, and the program ended well, by answers that came after they were given up."""
    return bool(rows) and all(row.started is not None for row in rows) and rows[0].exit_status == 0


def _going(file: GridJobFile) -> list[GridPartRow]:
    """Return the parts of its last transaction that clusters may still have."""
    return [row for row in file.rows if row.state not in _OVER]


def _shift(connection: Connection, job: int, transaction: int) -> ShiftRow:
    """Return the shift that a transaction tries with a job."""
    return next(shift for shift in metajobs.shifts_of(connection, [job]) if shift.transaction == transaction)


def _note_map(connection: Connection, job: int, placed: PlacedParts) -> None:
    """Note the map that goes with a place, if there is one."""
    if placed.noted is not None:
        programs.note_map(connection, job, placed.noted)


def first_cluster(
    connection: Connection, file: GridJobFile, metajob: MetajobRow, known: Sequence[GridClusterRow]
) -> str:
    """Return the cluster that is asked first. Clusters take turns, and a job keeps its first cluster."""
    names = [row.name for row in known]
    if not names or metajob.first in names:
        return metajob.first
    return names[metajobs.count_before(connection, file.job.id) % len(names)]


def decide(connection: Connection, known: Sequence[GridClusterRow], event: Event, now: float) -> Sequence[Action]:
    """Have the core decide, and store the decision with its inputs."""
    core = DrivenCore(BrokerState(tuple(GridCluster(row.name, row.procs or 0, row.speed) for row in known)))
    actions = core.tell(event, now)
    taken = core.taken()
    decisions.add(connection, MODULE, now, taken.state, taken.events, taken.actions)
    return actions


def parts_of(
    file: GridJobFile, metajob: MetajobRow, placed: PlacedParts, transaction: str, begin_time: float
) -> list[tuple[str, GridPart]]:
    """Return the parts of a job by cluster, in order: the first one has the program."""
    parts, place = [], placed.place
    for number, (cluster, procs) in enumerate(place.parts.items()):
        request = part_request(file.job, file.components[0], metajob.unit, procs, place.end - place.start)
        part = GridPart(
            part_name(file.job.id, number, transaction),
            "reserved",
            structs.replace(request, resources=placed.resources.get(cluster, request.resources)),
            _HOSTS_ONLY if number else file.job.program,
            file.job.directory,
            file.job.job_name,
            place.start,
            {
                "OAR_GRID_JOB_ID": str(file.job.id),
                "OAR_GRID_COMPONENT": str(number),
                **(_STARTER_OF_MPI if len(place.parts) > 1 else {}),
            },
            UNSET if len(place.parts) == 1 else begin_time + _BROKERS_TURN,
            map=placed.maps.get(cluster, UNSET),
        )
        parts.append((cluster, part))
    return parts


def _shared_names(parts: Iterable[PreparedPart]) -> str:
    """Return the message for the user about hosts that have one name on several clusters; empty without such hosts."""
    clusters_of = Counter(host for part in parts for host in set(part.hosts))
    shared = ", ".join(sorted(host for host, number in clusters_of.items() if number > 1))
    return f"oargridsh and mpirun cannot tell hosts apart that several clusters have: {shared}"[:1000] if shared else ""


def _begin_hosts(rows: Sequence[GridPartRow]) -> Conversation[object]:
    """Begin all parts but the first at the same time, and see whether the cluster of the first part answers."""
    there, *answers = yield CallBatch([ClusterCall(rows[0].cluster, Describe()), *map(_begin, rows[1:])], PATIENCE)
    answered = zip(rows[1:], answers, strict=True)
    begun = {row.name: answer for row, answer in answered if isinstance(answer, PreparedPart)}
    ready = {name: answer.hosts for name, answer in begun.items()}
    maps = {name: answer.map for name, answer in begun.items()}
    all_run = len(ready) == len(answers) and isinstance(there, ClusterDescription)
    return PartsReady(ready, all_run, program=False, maps=maps)


def _begin_program(row: GridPartRow, others: Sequence[str], lines: Sequence[str]) -> Conversation[object]:
    """Let the program begin; ``others`` are the hosts of the other parts, ``lines`` their processes."""
    (answer,) = yield CallBatch([_begin(row, others, lines)], PATIENCE)
    return PartsReady({}, isinstance(answer, PreparedPart), program=True)


def _begin(row: GridPartRow, others: Sequence[str] = (), lines: Sequence[str] = ()) -> ClusterCall:
    call = Begin(row.name, tuple(others), tuple(lines) if lines else UNSET, key=f"{row.name}:begin")
    return ClusterCall(row.cluster, call, 2 * PATIENCE, waits=True)
