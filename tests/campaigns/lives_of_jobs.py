"""Jobs of twelve kinds and more that go through their real moves in the database, on a clock that jumps.

Each life is a generator: it acts, and yields for how many microseconds it waits. What it did is written down apart.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any, TypeAlias

import psycopg

from oarpy.modules.accounting import account
from oarpy.store.jobs import execution, resizes, suspensions
from oarpy.store.jobs.execution import End
from oarpy.store.passes import decisions
from oarpy.store.passes.decisions import StartRow
from tests.harness.small_cluster import SmallCluster

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
Life: TypeAlias = "Generator[int, None, None]"

SECOND = 1_000_000
"""In microseconds, as all times here."""
WINDOW = 60
NODES, CORES, LICENCES, SHARED = 6, 6, 4, 6
"""Nodes, cores of each, licences, and how many cores are for jobs that share them."""
CORES_OF_GPU = 3

# Functions of this name that come before the server's: the statements and triggers of the schema read this clock.
_CLOCK = """
CREATE SCHEMA sim;
CREATE FUNCTION sim.clock_timestamp() RETURNS timestamptz LANGUAGE sql STABLE
    AS $$ SELECT pg_catalog.current_setting('sim.now')::timestamptz $$;
CREATE FUNCTION sim.statement_timestamp() RETURNS timestamptz LANGUAGE sql STABLE AS $$ SELECT sim.clock_timestamp() $$;
CREATE FUNCTION sim.now() RETURNS timestamptz LANGUAGE sql STABLE AS $$ SELECT sim.clock_timestamp() $$;
SET search_path = sim, public, pg_catalog;
"""


@dataclass
class Record:
    """What a job was and did. ``away``: when others had its resources; ``cores`` is 0 if it never ran.

    ``gpus`` are those that it had of what it asked for, ``memory`` its amount on each node, ``nodes`` how many it
    had, ``shared`` whether others may have its GPUs, too; ``left``: when it gave back how many cores, GPUs and nodes.
    """

    kind: str
    user: str
    project: str
    queue: str
    cores: int
    walltime: int
    started: int
    ended: int
    away: list[tuple[int, int]] = field(default_factory=list)
    gpus: Fraction = Fraction(0)
    left: list[tuple[int, int, Fraction, int]] = field(default_factory=list)
    memory: int = 0
    nodes: int = 0
    shared: bool = False


class Site:
    """Nodes, who has what, and a clock."""

    def __init__(self, connection: Connection, seed: int) -> None:
        self.random = random.Random(seed)
        self._connection, self._told = connection, 0
        self.records: list[Record] = []
        self._cluster = SmallCluster(connection)
        self._cluster.add_nodes(*(f"n{number}" for number in range(NODES)), cores=CORES)
        connection.execute("INSERT INTO resources (type) SELECT 'licence' FROM generate_series(1, %s)", [LICENCES])
        connection.execute("ALTER TABLE resources ADD gpu text")
        connection.execute("INSERT INTO resource_properties VALUES ('gpu', 'text', false)")
        connection.execute("UPDATE resources SET gpu = 'g' || resource_id / %s WHERE type = 'default'", [CORES_OF_GPU])
        self._cluster.add_consumable(
            "gpu_share", "gpu", "count", **{f"g{number}": 10**6 for number in range(NODES * CORES)}
        )
        self._cluster.add_consumable(
            "memory", "network_address", "bytes", **{f"n{number}": 10**15 for number in range(NODES)}
        )
        self.gpus: dict[int, Fraction] = {}
        """How many GPUs jobs have that ask for GPUs or shares of them."""
        self.memory: dict[int, tuple[int, int, bool]] = {}
        """The memory of jobs on each node, how many nodes they have, and whether they share GPUs."""
        self._asking: dict[tuple[int, int], tuple[Fraction, int, bool]] = {}
        """Of each alternative of jobs: the part of each GPU, the memory on each node, and whether it shares."""
        ids = [row[0] for row in connection.execute("SELECT resource_id FROM resources ORDER BY type, 1").fetchall()]
        self.shared, self.free = ids[:SHARED], set(ids[SHARED : NODES * CORES])
        self.licences = set(ids[NODES * CORES :])
        self._all_licences = frozenset(self.licences)
        connection.execute(_CLOCK)
        self.clock = int((datetime.now(UTC) + timedelta(days=1)).timestamp()) * SECOND
        self._agenda: list[tuple[int, int, Life]] = []

    @property
    def connection(self) -> Connection:
        """The connection, where it is now what the clock says."""
        if self._told != self.clock:
            self._connection.execute("SELECT set_config('sim.now', %s, false)", [_text(self.clock)])
            self._told = self.clock
        return self._connection

    def run(self, lives: Sequence[Life]) -> None:
        """Let all lives begin, one every 25 seconds or so, and go on to their ends; count in between what has ended."""
        for number, life in enumerate(lives):
            self._agenda.append((self.clock + self.moment(25 * len(lives)), number, life))
        heapq.heapify(self._agenda)
        while self._agenda:
            at, number, life = heapq.heappop(self._agenda)
            self.clock = max(at, self.clock + 1)
            wait = next(life, None)
            if wait is not None:
                heapq.heappush(self._agenda, (self.clock + wait, number, life))
            if self.random.random() < 0.02:
                account(self.connection, WINDOW, self.random.randint(1, 50))
        while account(self.connection, WINDOW, 100):
            pass

    def moment(self, most: float) -> int:
        """Return a time below ``most`` seconds."""
        return self.random.randrange(int(most * SECOND))

    # What commands and modules do

    def submit(self, *requests: str, size: int = 1, **values: Any) -> list[int]:
        """Submit jobs, which now and then ask for GPUs."""
        assert self.connection is self._cluster.connection
        asked = [self._more(text) for text in requests]
        jobs = self._cluster.submit_array(size, *(text for text, *_ in asked), **values)
        self._asking |= {
            (job, number): (part, memory, shared)
            for job in jobs
            for number, (_, part, memory, shared) in enumerate(asked)
        }
        return jobs

    def _more(self, text: str) -> tuple[str, Fraction, int, bool]:
        """Return a request that asks for GPUs, shares of GPUs and memory, too, or for none; with how much."""
        hierarchy, _, walltime = text.partition(",")
        share = self.random.choice((0, 0, 25, 33, 100))
        memory = self.random.choice((0, 0, 7, 3 << 30))
        part = Fraction(share, 100)
        if self.random.random() < 0.5:
            hierarchy, part = f"/gpu=1{hierarchy}", part or Fraction(1)
        amounts = [f"gpu_share={share}"] * bool(share) + [f"memory={memory}"] * bool(memory)
        return ",".join([hierarchy, *amounts, walltime]), part, memory, bool(share)

    def start(
        self, job: int, resources: Sequence[int], alternative: int = 0, *, exclusive: bool = True, guest: bool = False
    ) -> int:
        """Give a job resources; return its walltime in microseconds."""
        moldable, walltime = self.connection.execute(
            "SELECT m.moldable_id, extract(epoch FROM m.walltime)::bigint FROM jobs JOIN moldable_descriptions m"
            " USING (submission_id) WHERE job_id = %s AND position = %s",
            [job, alternative],
        ).fetchone() or (0, 0)
        part, memory, shared = self._asking[job, alternative]
        self.gpus[job] = len(self.gpus_of(resources)) * part
        self.memory[job] = memory, len(self.nodes_of(resources)), shared
        row = StartRow(job, moldable, float(walltime), list(resources), exclusive, guest)
        assert decisions.start(self.connection, [row]) == [job]
        return int(walltime) * SECOND

    def gpus_of(self, resources: Iterable[int]) -> set[int]:
        """Return the GPUs that cores belong to."""
        return {core // CORES_OF_GPU for core in set(resources) - self._all_licences}

    def nodes_of(self, resources: Iterable[int]) -> set[int]:
        """Return the nodes that cores belong to."""
        return {(core - 1) // CORES for core in set(resources) - self._all_licences}

    def launch(self, job: int) -> None:
        """Have its first node told."""
        assert execution.claim(self.connection, [(job, "")]) == [job]

    def began(self, job: int) -> int:
        """Record that it runs, and return since when."""
        execution.started(self.connection, [(job, self.clock / SECOND)])
        return self.clock

    def ended(self, job: int) -> int:
        """Record that it ended by itself, and return when."""
        assert execution.end(self.connection, [End(job, "Terminated", 0, None, self.clock / SECOND, "", "")]) == [job]
        return self.clock

    def killed(self, job: int) -> Generator[int, None, int]:
        """Record that it was killed, and some time later that nothing of it is left; return when that was."""
        assert execution.finish(self.connection, [End(job, "Error", None, None, self.clock / SECOND, "", "killed")])
        yield self.moment(5)
        assert execution.close(self.connection, [(job, self.clock / SECOND)]) == [job]
        return self.clock

    def suspended(self, job: int) -> None:
        """Record that it stands still."""
        with self.connection.transaction():
            suspensions.suspend(self.connection, [job], ["default"], [])

    def sql(self, statement: Any, *values: object) -> None:
        """Do what somebody does by hand."""
        self.connection.execute(statement, values)


def _text(moment: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=moment)).isoformat()


def taken(site: Site, number: int) -> Generator[int, None, list[int]]:
    """Wait until so many cores are free, and take them."""
    while len(site.free) < number:
        yield site.moment(3) + 1
    cores = site.random.sample(sorted(site.free), number)
    site.free -= set(cores)
    return cores


def launched(site: Site, job: int) -> Generator[int, None, int]:
    """Launch a job that has resources; return when it began."""
    yield site.moment(2)
    site.launch(job)
    yield site.moment(3)
    return site.began(job)


def plain(site: Site, **values: Any) -> Life:
    """It waits, runs and ends, now and then within the same instant."""
    number = site.random.randint(1, 5)
    (job,) = site.submit(f"/core={number},walltime=0:0:{site.random.randint(30, 900)}", **values)
    yield from one_run(site, job, number, values)


def one_run(
    site: Site, job: int, number: int, values: dict[str, Any], alternative: int = 0, kind: str = "plain"
) -> Life:
    """Run a job on ``number`` cores."""
    cores = yield from taken(site, number)
    walltime = site.start(job, cores, alternative)
    started = yield from launched(site, job)
    yield site.moment(walltime / SECOND * 1.2) if site.random.random() < 0.95 else 0
    ended = site.ended(job)
    site.free |= set(cores)
    note(site, kind, job, values, number, walltime, started, ended)


def note(
    site: Site,
    kind: str,
    job: int,
    values: dict[str, Any],
    cores: int,
    walltime: int,
    started: int,
    ended: int,
    away: Sequence[tuple[int, int]] = (),
    left: Sequence[tuple[int, int, Fraction, int]] = (),
) -> None:
    """Write down what a job was."""
    names = (values.get("user", "ann"), values.get("project", "default"), values.get("queue", "default"))
    gpus, (memory, nodes, shared) = site.gpus.get(job, Fraction(0)), site.memory.get(job, (0, 0, False))
    site.records.append(
        Record(kind, *names, cores, walltime, started, ended, list(away), gpus, list(left), memory, nodes, shared)
    )


def moldable(site: Site) -> Life:
    """It has two alternatives, of which it gets one."""
    values: dict[str, Any] = {"user": "mona"}
    (job,) = site.submit("/core=4,walltime=0:0:200", "/core=2,walltime=0:0:500", **values)
    yield from taken_alternative(site, job, values)


def taken_alternative(site: Site, job: int, values: dict[str, Any]) -> Life:
    """Run a job on either alternative."""
    alternative = site.random.randrange(2)
    yield from one_run(site, job, (4, 2)[alternative], values, alternative, "moldable")


def array(site: Site) -> Life:
    """Three members that run by themselves, one after the other."""
    values: dict[str, Any] = {"user": "arno", "project": "sweep"}
    for job in site.submit("/core=1,walltime=0:0:300", size=3, **values):
        yield from one_run(site, job, 1, values, kind="array")


def besteffort(site: Site) -> Life:
    """It is killed before its end."""
    values: dict[str, Any] = {"user": "bea", "queue": "besteffort"}
    (job,) = site.submit("/core=3,walltime=0:0:600", types=("besteffort",), **values)
    cores = yield from taken(site, 3)
    walltime = site.start(job, cores)
    started = yield from launched(site, job)
    yield site.moment(300)
    ended = yield from site.killed(job)
    site.free |= set(cores)
    note(site, "besteffort", job, values, 3, walltime, started, ended)


def timesharing(site: Site) -> Life:
    """It runs beside others of its like."""
    values: dict[str, Any] = {"user": site.random.choice(["tim", "tom"]), "project": "shared"}
    (job,) = site.submit("/core=6,walltime=0:0:400", types=("timesharing=*,*",), **values)
    walltime = site.start(job, site.shared, exclusive=False)
    started = yield from launched(site, job)
    yield site.moment(350)
    note(site, "timesharing", job, values, SHARED, walltime, started, site.ended(job))


def container(site: Site) -> Life:
    """Two inner jobs run inside it, one after the other."""
    values: dict[str, Any] = {"user": "cora", "project": "shared"}
    (job,) = site.submit("/core=4,walltime=0:0:900", types=("container",), **values)
    cores = yield from taken(site, 4)
    walltime = site.start(job, cores, exclusive=False)
    started = yield from launched(site, job)
    for _ in range(2):
        (inner,) = site.submit("/core=2,walltime=0:0:100", types=(f"inner={job}",), **values)
        short = site.start(inner, cores[:2], guest=True)
        began = yield from launched(site, inner)
        yield site.moment(120)
        note(site, "inner", inner, values, 2, short, began, site.ended(inner))
        yield site.moment(5)
    ended = site.ended(job)
    site.free |= set(cores)
    note(site, "container", job, values, 4, walltime, started, ended)


def suspended(site: Site) -> Life:
    """It stands still once to three times, and others have its cores; at times it is killed then."""
    values: dict[str, Any] = {"user": "sue"}
    (job,) = site.submit("/core=2,walltime=0:0:500", **values)
    cores = yield from taken(site, 2)
    walltime = site.start(job, cores)
    started = yield from launched(site, job)
    away: list[tuple[int, int]] = []
    for _ in range(site.random.randint(1, 3)):
        yield site.moment(100)
        site.suspended(job)
        left = site.clock
        site.free |= set(cores)
        yield site.moment(300)
        if site.random.random() < 0.3:
            ended = yield from site.killed(job)
            note(site, "killed while suspended", job, values, 2, walltime, started, ended, [*away, (left, ended)])
            return
        site.sql("UPDATE jobs SET state = 'Resuming' WHERE job_id = %s", job)
        while not set(cores) <= site.free:
            yield site.moment(3) + 1
        site.free -= set(cores)
        suspensions.give_back(site.connection, [job])
        away.append((left, site.clock))
        yield site.moment(2)
        suspensions.resume(site.connection, [job])
    yield site.moment(100)
    ended = site.ended(job)
    site.free |= set(cores)
    note(site, "suspended", job, values, 2, walltime, started, ended, away)


def never_ran(site: Site) -> Life:
    """It is deleted while it waits, or cannot be launched."""
    (job,) = site.submit("/core=1,walltime=0:0:100", user="nina")
    yield site.moment(100)
    if site.random.random() < 0.5:
        site.sql("UPDATE jobs SET state = 'Error', ended_at = greatest(now(), submitted_at) WHERE job_id = %s", job)
    else:
        cores = yield from taken(site, 1)
        site.start(job, cores)
        yield site.moment(5)
        execution.give_up(site.connection, [job], "no node")
        site.sql("UPDATE jobs SET state = 'Error', ended_at = greatest(now(), submitted_at) WHERE job_id = %s", job)
        site.free |= set(cores)
    note(site, "never ran", job, {"user": "nina"}, 0, 0, site.clock, site.clock)


def longer(site: Site) -> Life:
    """Its walltime is changed while it runs."""
    values: dict[str, Any] = {"user": "lena", "project": "long"}
    (job,) = site.submit("/core=3,walltime=0:0:200", **values)
    cores = yield from taken(site, 3)
    site.start(job, cores)
    started = yield from launched(site, job)
    yield site.moment(100)
    walltime = site.random.randint(1, 900)
    site.sql("UPDATE jobs SET walltime = %s * interval '1 second' WHERE job_id = %s", walltime, job)
    yield site.moment(300)
    ended = site.ended(job)
    site.free |= set(cores)
    note(site, "walltime changed", job, values, 3, walltime * SECOND, started, ended)


def shrunk(site: Site) -> Life:
    """It gives back two of its cores while it runs, and with them perhaps a GPU."""
    values: dict[str, Any] = {"user": "shri"}
    (job,) = site.submit("/core=4,walltime=0:0:400", **values)
    cores = yield from taken(site, 4)
    walltime = site.start(job, cores)
    started = yield from launched(site, job)
    yield site.moment(150)
    given = resizes.order(site.connection, job, "release", cores[2:])
    assert given is not None
    with site.connection.transaction():
        resizes.confirm(site.connection, [given])
    gone = site.clock
    site.free |= set(cores[2:])
    share = site.gpus[job] / len(site.gpus_of(cores))
    gpus = share * (len(site.gpus_of(cores)) - len(site.gpus_of(cores[:2])))
    nodes = len(site.nodes_of(cores)) - len(site.nodes_of(cores[:2]))
    yield site.moment(150)
    ended = site.ended(job)
    site.free |= set(cores[:2])
    note(site, "shrunk", job, values, 4, walltime, started, ended, left=[(gone, 2, gpus, nodes)])


def licensed(site: Site) -> Life:
    """It has a licence beside its cores, which is not counted."""
    values: dict[str, Any] = {"user": "lou"}
    (job,) = site.submit("/core=2,walltime=0:0:300", **values)
    while not site.licences:
        yield site.moment(5) + 1
    licence = site.licences.pop()
    cores = yield from taken(site, 2)
    walltime = site.start(job, [*cores, licence])
    started = yield from launched(site, job)
    yield site.moment(200)
    ended = site.ended(job)
    site.free |= set(cores)
    site.licences.add(licence)
    note(site, "licensed", job, values, 2, walltime, started, ended)


def moved(site: Site) -> Life:
    """It is taken off its first resources before it was launched, and runs on others."""
    values: dict[str, Any] = {"user": "mo", "project": "moves"}
    (job,) = site.submit("/core=5,walltime=0:0:300", "/core=1,walltime=0:0:600", **values)
    cores = yield from taken(site, 5)
    site.start(job, cores)
    yield site.moment(10)
    site.sql("UPDATE jobs SET state = 'Waiting', moldable_id = NULL, walltime = NULL WHERE job_id = %s", job)
    site.free |= set(cores)
    yield from one_run(site, job, 1, values, 1, "moved")


def anonymous(site: Site) -> Life:
    """One of many of the same user, whose sums grow with each."""
    yield from plain(site, user=site.random.choice(["ann", "bob"]), project=site.random.choice(["default", "ocean"]))


KINDS: tuple[Callable[[Site], Life], ...] = (
    anonymous,
    moldable,
    array,
    besteffort,
    timesharing,
    container,
    suspended,
    never_ran,
    longer,
    shrunk,
    licensed,
    moved,
    plain,
)
