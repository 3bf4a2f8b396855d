"""Faults of a broker, of its clusters and of the ways between them: what is struck, where, and at which moment."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress

import psycopg

from oarpy.grid.local.local_grid import LocalGrid
from oarpy.local_cluster.sandbox import Sandbox
from oarpy.model.errors import OarpyError
from oarpy.postgres import embedded_server
from research.benchmarks.server_processes import all_pids, arguments_of, children_of, environment_of, server_processes

CLUSTER_KINDS = ("door session", "gateway", "metascheduler", "launcher", "canceller", "cluster's supervisor")
SESSIONS, DATABASE, SUSPENDED, ENDED = "database sessions", "database", "network suspended", "network ended"
SILENT = "cluster silent until it is lost"
KINDS = (
    *("mapper", "claimer", "watcher", "door session", "metascheduler", "launcher", SUSPENDED, SESSIONS),
    *("mover", "canceller", "gateway", ENDED, "gateway worker", "automaton"),
    *("supervisor", "cluster's supervisor", DATABASE),
)
"""The main ones first. Those of a cluster strike any of them; the others, the broker."""
STEPS = ("Preparing", "Held", "Committing", "Aborting", "Beginning")
"""States of a transaction, and the instant at which the parts of a claim begin."""
METAJOB_STEPS = ("Placing", "Modifying", "Gathering")
"""What is done for programs over clusters: parts are reserved, amended, and begin when all are ready."""
BAG_STEPS = ("Offering", "Awarding", "Confirming", "Coordinating")
"""What is done for bags over clusters: offers and parts are asked for, confirmed, and told when all is done."""
_WAYS = ("door session", SUSPENDED, ENDED, SESSIONS)
"""Faults by which calls and answers are lost, are late, or come twice."""
SIDES = ("broker", "cluster")
BAG_SIDES = (*SIDES, "way")
"""At each step of a bag, calls and answers are lost or late as well; a call whose answer is lost is made again."""
RARE = ("supervisor", "cluster's supervisor", DATABASE)
"""Faults after which a whole server has to start again: each comes once while the others come four times."""

_OPEN = """
    SELECT t.module, array(SELECT cluster FROM grid_outcomes o WHERE o.transaction = t.id
        UNION SELECT cluster FROM grid_parts p WHERE p.transaction = t.id)
    FROM grid_transactions t WHERE t.state = %s ORDER BY t.id DESC LIMIT 1
"""
_BEGINNING = """
    SELECT module, array(SELECT cluster FROM grid_parts p WHERE p.transaction = t.id) FROM grid_transactions t
    WHERE kind = 'claim' AND committed AND abs(extract(epoch FROM begin_at - clock_timestamp())) < 0.4 LIMIT 1
"""
_PARTS_OF = """
    SELECT t.module, array(SELECT cluster FROM grid_outcomes o WHERE o.transaction = t.id) FROM grid_transactions t
    JOIN grid_jobs j ON j.id = t.job WHERE j.kind = 'metajob'
"""
_BAG_PARTS_OF = """
    SELECT t.module, array(SELECT cluster FROM grid_parts p WHERE p.transaction = t.id) FROM grid_transactions t
    JOIN grid_jobs j ON j.id = t.job WHERE j.kind = 'bag' AND t.kind = 'reserve'
"""
_OFFERING = """
    SELECT 'claimer', array(SELECT name FROM grid_clusters WHERE 'offer' = ANY(abilities)) FROM grid_jobs j
    WHERE kind = 'bag' AND state = 'Submitted'
      AND NOT EXISTS (SELECT FROM grid_transactions t WHERE t.job = j.id AND t.state <> 'Done') LIMIT 1
"""
_BUSY = """
    SELECT p.cluster FROM grid_bag_tasks t JOIN grid_parts p ON p.name = t.part
    WHERE t.state = 'Live' AND p.state = 'Running' GROUP BY 1 HAVING count(*) >= 5
"""
_COORDINATING = """
    SELECT 'claimer', array_agg(DISTINCT p.cluster) FROM grid_bags b JOIN grid_bag_parts w USING (job)
    JOIN grid_parts p ON p.name = w.part
    WHERE w.told < b.version AND EXISTS (SELECT FROM grid_bag_tasks k WHERE k.part = w.part AND k.state = 'Live')
    HAVING count(*) > 0
"""
_MOMENTS = {
    "Offering": _OFFERING,
    "Awarding": f"{_BAG_PARTS_OF} AND t.state = 'Preparing' LIMIT 1",
    "Confirming": f"{_BAG_PARTS_OF} AND t.state = 'Committing' LIMIT 1",
    "Coordinating": _COORDINATING,
    "Beginning": _BEGINNING,
    "Placing": f"{_PARTS_OF} AND t.kind = 'reserve' AND t.state IN ('Preparing', 'Committing') LIMIT 1",
    "Modifying": f"{_PARTS_OF} AND t.kind = 'amend' AND t.state IN ('Preparing', 'Committing') LIMIT 1",
    "Gathering": f"{_PARTS_OF} AND j.state = 'Mapped' AND j.deadline < clock_timestamp() ORDER BY t.id DESC LIMIT 1",
}
"""How each moment is known that is no state of a transaction."""
_END_SESSIONS = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name LIKE 'oarpy %' ORDER BY random() LIMIT 3
"""
_STEP_TIME = 6.0
_METAJOB_STEP_TIME = 12.0
_SHORTEST_CUT, _LONGEST_CUT = 1.0, 8.0
_SILENCE = 40.0
"""Seconds for which a silent cluster is cut off: longer than the broker of a campaign of bags waits for it."""
_HANGING = 25.0
"""Seconds for which a launcher does nothing: longer than the broker waits for a part that does not begin."""

Fault = str | tuple[str, str]
"""A kind, or a step of a transaction and the side that is struck then."""


def planned_for_metajobs(chance: random.Random, count: int) -> list[Fault]:
    """Return so many faults, alike many at each step and on each side, in random order."""
    steps: list[Fault] = [(step, side) for side in SIDES for step in METAJOB_STEPS]
    made = [steps[place % len(steps)] for place in range(count)]
    chance.shuffle(made)
    return made


def planned_for_bags(chance: random.Random, count: int) -> list[Fault]:
    """Return so many faults in random order: a third are of the ways, the others are at steps of bags.

    At least one lets a cluster be silent until it is lost.
    """
    steps: list[Fault] = [(step, side) for side in BAG_SIDES for step in BAG_STEPS]
    made: list[Fault] = [SILENT] * (1 + count // 30)
    made += [_WAYS[place % len(_WAYS)] for place in range(count // 3 - len(made))]
    made += [steps[place % len(steps)] for place in range(count - len(made))]
    chance.shuffle(made)
    return made


def planned(chance: random.Random, count: int, *, databases: bool) -> list[Fault]:
    """Return so many faults in random order: each kind is among them, and every third one strikes at a step."""
    turn = [kind for kind in KINDS if databases or kind != DATABASE]
    turn += [kind for kind in turn if kind not in RARE] * 3
    steps = [(step, side) for side in SIDES for step in STEPS]
    made: list[Fault] = [turn[place % len(turn)] for place in range(count - count // 3)]
    made += [steps[place % len(steps)] for place in range(count // 3)]
    chance.shuffle(made)
    return made


class GridFaults:
    """Strikes, and counts what was struck."""

    def __init__(self, grid: LocalGrid, chance: random.Random) -> None:
        self._grid = grid
        self._chance = chance
        self.struck: Counter[str] = Counter()
        self.steps: Counter[tuple[str, str]] = Counter()
        self.cut_off: set[str] = set()
        """Clusters to which the way is cut at present, or whose launcher hangs."""
        self.hung = 0
        """How often a launcher hung."""
        self.wants_work = threading.Event()
        """Set when a fault waits for a transaction, which a new job would begin."""
        self._cuts: list[threading.Thread] = []

    def strike(self, fault: Fault) -> bool:
        """Strike; tell whether there was something to be struck."""
        if isinstance(fault, tuple):
            return self._strike_at(*fault)
        done = self._strike_kind(fault)
        self.struck[fault] += done
        return done

    def settle(self) -> None:
        """Let all that was cut or ended be there again."""
        for cut in self._cuts:
            cut.join()
        self.revive()

    def revive(self) -> None:
        """Start servers again that are gone."""
        for one in self._everybody():
            _revive(one)

    def _everybody(self) -> list[Sandbox]:
        return [self._grid.broker, *self._grid.clusters.values()]

    def _strike_kind(self, kind: str) -> bool:
        name = self._chance.choice(list(self._grid.clusters))
        cluster, broker = self._grid.clusters[name], self._grid.broker
        if kind == SESSIONS:
            return _end_sessions(self._chance.choice(self._everybody()))
        if kind == DATABASE:
            return self._stop_database(self._chance.choice(self._everybody()))
        if kind == SUSPENDED:
            return self._suspend(name)
        if kind == SILENT:
            return self._silence()
        if kind == ENDED:
            return self._end_ways(name)
        if kind == "cluster's supervisor":
            return _kill_supervisor(cluster)
        if kind == "supervisor":
            return _kill_supervisor(broker)
        return self._kill_one(self._pids(cluster if kind in CLUSTER_KINDS else broker, kind))

    def _strike_at(self, step: str, side: str) -> bool:
        """Wait until a transaction is at a step, and kill who leads it, or a process of a cluster it concerns."""
        until = time.monotonic() + (_METAJOB_STEP_TIME if step in METAJOB_STEPS else _STEP_TIME)
        query = (_MOMENTS[step],) if step in _MOMENTS else (_OPEN, [step])
        self.wants_work.set()
        while time.monotonic() < until:
            with suppress(psycopg.Error), psycopg.connect(self._grid.broker.dsn(), autocommit=True) as connection:
                while time.monotonic() < until:
                    if row := connection.execute(*query).fetchone():
                        done = self._strike_party(step, side, *row)
                        self.steps[step, side] += done
                        return done
                    time.sleep(0.003)
        return False

    def _strike_party(self, step: str, side: str, module: str, clusters: Sequence[str]) -> bool:
        if side == "broker":
            return self._kill_one(self._pids(self._grid.broker, module))
        if not clusters:
            return False
        name = self._chance.choice(list(clusters))
        if side == "way":
            return self._chance.choice((self._suspend, self._end_ways))(name)
        cluster = self._grid.clusters[name]
        kinds = ["door session", "door session", "metascheduler", "canceller", "gateway"]
        if step in ("Beginning", "Gathering"):
            kinds = (
                ["launcher", "hanging launcher"]
                if step == "Beginning"
                else ["launcher", "door session", "metascheduler"]
            )
        kind = self._chance.choice(kinds)
        if kind == "hanging launcher":
            return self._hang(name)
        return self._kill_one(self._pids(cluster, kind))

    def _kill_one(self, pids: Sequence[int]) -> bool:
        return bool(pids) and _kill(self._chance.choice(pids))

    def _pids(self, there: Sandbox, kind: str) -> list[int]:
        if kind == "door session":
            return list(_sessions(there))
        if there.server is None or there.server.poll() is not None:
            return []
        found = server_processes(there.server.pid)
        pids: list[int] = children_of(*found.get("gateway", [])) if kind == "gateway worker" else found.get(kind, [])
        return pids

    def _ways(self, name: str) -> list[int]:
        """Return the commands by which the broker is connected to a cluster."""
        mark = f"OARPY_GATEWAY_SOCKET={self._grid.clusters[name].directory / 'gateway' / 'socket'}".encode()
        named = [pid for pid in all_pids() if "oargriddoor" in " ".join(arguments_of(pid))]
        return [pid for pid in named if mark in environment_of(pid).split(b"\0")]

    def _end_ways(self, name: str) -> bool:
        return all([_kill(pid) for pid in self._ways(name)] or [False])

    def _silence(self) -> bool:
        """Cut a cluster off that has tasks of bags, until the broker has given them up there."""
        with suppress(psycopg.Error, OarpyError):
            busy = [name for (name,) in self._grid.sql(_BUSY)]
            return bool(busy) and self._suspend(self._chance.choice(busy), _SILENCE)
        return False

    def _suspend(self, name: str, seconds: float | None = None) -> bool:
        """Cut a cluster off for some seconds: nothing goes over its connections, nor over new ones."""
        if name in self.cut_off or not self._ways(name):
            return False
        self.cut_off.add(name)
        span = self._chance.uniform(_SHORTEST_CUT, _LONGEST_CUT) if seconds is None else seconds
        cut = threading.Thread(target=self._cut, args=(name, span))
        cut.start()
        self._cuts.append(cut)
        return True

    def _cut(self, name: str, seconds: float) -> None:
        until, stopped = time.monotonic() + seconds, set[int]()
        try:
            while time.monotonic() < until:
                for pid in set(self._ways(name)) - stopped:
                    _signal(pid, signal.SIGSTOP)
                    stopped.add(pid)
                time.sleep(0.1)
        finally:
            for pid in stopped & set(self._ways(name)):
                _signal(pid, signal.SIGCONT)
            self.cut_off.discard(name)

    def _hang(self, name: str) -> bool:
        """Let a launcher do nothing for a time; tell whether there was one, and nothing was cut off there yet."""
        pids = self._pids(self._grid.clusters[name], "launcher")
        if name in self.cut_off or not pids:
            return False
        self.cut_off.add(name)
        self._cuts.append(threading.Thread(target=self._hold_up, args=(name, pids[0])))
        self._cuts[-1].start()
        self.hung += 1
        return True

    def _hold_up(self, name: str, pid: int) -> None:
        _signal(pid, signal.SIGSTOP)
        time.sleep(_HANGING)
        _signal(pid, signal.SIGCONT)
        self.cut_off.discard(name)

    def _stop_database(self, there: Sandbox) -> bool:
        folder = there.directory / "postgresql"
        stopped = embedded_server.stop(folder)
        time.sleep(self._chance.uniform(0, 1))
        embedded_server.start(folder)
        return stopped


def _sessions(there: Sandbox) -> Iterator[int]:
    """Find the sessions of brokers: processes of a gateway that lead a session of the kernel's."""
    mark = f"OARPY_CONFIG={there.configuration_file}".encode()
    for pid in all_pids():
        if "oarpy.gateway" in arguments_of(pid) and mark in environment_of(pid).split(b"\0"):
            with suppress(ProcessLookupError):
                if os.getsid(pid) == pid:
                    yield pid


def _end_sessions(there: Sandbox) -> bool:
    with suppress(psycopg.Error), psycopg.connect(there.dsn(), autocommit=True) as connection:
        return bool(connection.execute(_END_SESSIONS).fetchall())
    return False


def _kill_supervisor(there: Sandbox) -> bool:
    if there.server is None or not _kill(there.server.pid):
        return False
    there.server.wait()
    there.start()
    return True


def _revive(there: Sandbox) -> None:
    """What systemd would do: a server that is gone is started again."""
    if there.server is None or there.server.poll() is not None:
        there.start()


def _kill(pid: int) -> bool:
    return _signal(pid, signal.SIGKILL)


def _signal(pid: int, number: signal.Signals) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
