"""Jobs of every kind on a small cluster whose clock stands still but when it is told to go on.

What :class:`EveryKind` did is written down in :class:`Life` by who did it, so that views of the database can be held
against it. Durations are minutes; what the modules do takes milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from oarpy.client.jobs import actions
from oarpy.client.jobs.selection import JobSelection
from oarpy.client.session import Session as UserSession
from oarpy.model.request import parse_request
from oarpy.modules.accounting import account, file_away
from oarpy.store.analytics import gpu_uses
from oarpy.store.analytics.gpu_uses import LookedAt
from oarpy.store.jobs import rates, resizes, walltime_changes
from oarpy.store.jobs.rates import ProgramKey
from oarpy.store.passes import mapped_jobs, run_predictions
from oarpy.store.passes.mapped_jobs import SettledRow
from oarpy.transport.inbox import Inbox
from oarpy.wire.jobs import JobKey
from oarpy.wire.messages import Ended, RecalledJob
from tests.harness.fake_transport import FakeTransport
from tests.harness.hand_written import rewrite
from tests.harness.small_cluster import SmallCluster, with_settings
from tests.harness.virtual_time import SECOND, Clock, Database

NODES, CORES, LICENCES = ("n1", "n2", "n3", "n4"), 2, 2
MEMORY = 16
"""What each node has of the consumable ``memory``."""
LOOK = 60.0
"""Seconds that a look at GPUs stands for."""
DAY = 86400
SETTINGS = with_settings(
    scheduler={"security_time": 0},
    jobs={"users_may_suspend": True, "deploy_host": "h1", "cosystem_host": "h1"},
    walltime={"enabled": True},
)
NORMAL = ("Waiting", "toLaunch", "Launching", "Running")
BY_ITSELF = (*NORMAL, "Finishing", "Terminated")
KILLED = (*NORMAL, "Finishing", "Error")


@dataclass
class Life:
    """What a job was and did, by who made it. Instants are epoch seconds; ``holds`` is by resource."""

    kind: str
    job: int
    requests: tuple[str, ...]
    walltimes: tuple[int, ...]
    given: dict[str, Any]
    submitted: float
    array: int
    index: int = 1
    state: str = "Waiting"
    path: tuple[str, ...] = ("Waiting",)
    chosen: int | None = None
    walltime: int | None = None
    attempt: int = 0
    holds: dict[int, list[tuple[float, float | None]]] = field(default_factory=dict)
    came_later: set[int] = field(default_factory=set)
    started: float | None = None
    ended: float | None = None
    still: float = 0.0
    """Seconds for which it stood still, without the present time."""
    still_since: float | None = None
    status: int | None = None
    cause: str = ""
    """Why it failed, if it did."""
    copy_of: int | None = None
    reservation: float | None = None
    answer: str | None = None
    """What became of its wish for a reservation."""
    amounts: dict[str, int] = field(default_factory=dict)
    """How much of the memory of nodes it has."""
    used: tuple[float, int] | None = None
    """Seconds of processors, and bytes, if its nodes measured them."""
    more_asked: int | None = None
    """Seconds by which it asked for more walltime, granted or not."""
    filed: bool = False
    """Whether it is in the past."""

    @property
    def user(self) -> str:
        """Whose it is."""
        return str(self.given.get("user", "ann"))

    @property
    def project(self) -> str:
        """What it counts for."""
        return str(self.given.get("project", "default"))

    @property
    def queue(self) -> str:
        """Its queue."""
        return str(self.given.get("queue", "default"))

    @property
    def types(self) -> list[str]:
        """Its types."""
        return list(self.given.get("types", ()))


class _DatedCluster(SmallCluster):
    """One whose modules and nodes have the clock of the tests."""

    def __init__(self, connection: Any, clock: Clock) -> None:
        super().__init__(connection, SETTINGS)
        self._clock = clock
        self.nodes = FakeTransport(Inbox(), clock=clock.time)
        self._inboxes.append(self.nodes.inbox)

    def now(self) -> datetime:
        """The instant of the clock."""
        return self._clock.datetime()


class EveryKind:
    """Makes the jobs, and keeps their lives."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self.clock = clock
        self.lives: list[Life] = []
        self.connection = database.connect(self)
        self.cluster = _DatedCluster(self.connection, clock)
        self.cluster.add_nodes(*NODES, cores=CORES)
        self.sql("INSERT INTO resources (type) SELECT 'licence' FROM generate_series(1, %s)", LICENCES)
        self.cluster.add_consumable("memory", n1=MEMORY, n2=MEMORY, n3=MEMORY, n4=MEMORY)
        self.begin = clock.time()
        self.absences: list[tuple[float, float]] = []
        """When all nodes were away."""
        self.drained_at = self.restored_at = 0.0
        self.offered: dict[int, list[float]] = {}
        """Starts that refused reservations were offered."""
        self.predicted: dict[int, float] = {}
        """How long jobs were predicted to run, in seconds."""
        self.looks: dict[int, LookedAt] = {}
        """What was seen of the GPUs of jobs, which stands for some seconds."""
        self.mapped: dict[int, float] = {}
        """How long jobs were predicted to run by their maps, in seconds."""
        self.promised: dict[int, dict[str, Any]] = {}
        """What bags were promised, and what came of it, by the first job of each."""
        ((self.admin,),) = self.sql("SELECT session_user")
        self.cluster.settle()

    # what a session asks

    def begins(self, *, transaction: bool) -> int:
        """Let ten microseconds pass before a transaction."""
        self.clock.jump(10)
        return self.clock.now

    def before(self, what: str) -> None:
        """Let a microsecond pass before a statement, as one does at least in a real server."""
        if what != "COMMIT":
            self.clock.jump(1)
            self.connection.pgconn.exec_(b"SELECT nextval('sim.clock')")

    def returned(self) -> None:
        """Go on with what the server answered."""

    def after(self, what: str) -> None:
        """Go on."""

    # what is done

    def sql(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Do what an admin does in psql."""
        return self.cluster.sql(statement, *values)

    def wait(self, seconds: float) -> None:
        """Let time pass, and the modules do what is due."""
        self.clock.jump(int(seconds * SECOND))
        self.cluster.settle()

    def submit(self, kind: str, *requests: str, size: int = 1, **values: Any) -> list[Life]:
        """Submit jobs; walltimes are an hour unless requests say another."""
        texts = requests or ("/core=1",)
        jobs = self.cluster.submit_array(size, *texts, **values)
        walltimes = tuple(_walltime(text) for text in texts)
        made = [
            Life(kind, job, tuple(map(_without_walltime, texts)), walltimes, values, self.clock.time(), jobs[0], index)
            for index, job in enumerate(jobs, 1)
        ]
        for life in made:
            if "hold" in values:
                life.state, life.path = "Hold", ("Hold",)
            if "reservation" in values:
                life.reservation, life.answer = values["reservation"].timestamp(), "toSchedule"
        self.lives += made
        return made

    def one(self, kind: str, *requests: str, **values: Any) -> Life:
        """Submit one job."""
        return self.submit(kind, *requests, **values)[0]

    def holds(self, life: Life, cores: int, others: int = 0) -> None:
        """Note that a job was given so many cores, and licences."""
        found = [row[0] for row in self.sql("SELECT resource_id FROM assigned_resources WHERE job_id = %s", life.job)]
        computing = [one for one in found if one <= len(NODES) * CORES]
        assert (len(computing), len(found) - len(computing)) == (cores, others), (life, found)
        life.holds = {one: [(self.clock.time(), None)] for one in sorted(found)}
        life.chosen = 0 if life.chosen is None else life.chosen
        life.walltime = life.walltimes[life.chosen]
        life.attempt += 1

    def begun(self, life: Life, cores: int, others: int = 0) -> Life:
        """Let a job that can start do so."""
        self.cluster.settle()
        self.holds(life, cores, others)
        life.state, life.path, life.started = "Running", (*life.path, *NORMAL[1:]), self.clock.time()
        return life

    def over(self, life: Life, state: str, path: tuple[str, ...], status: int | None, cause: str = "") -> None:
        """Note that a job is over, and gave back what it had."""
        self.cluster.settle()
        life.state, life.ended, life.status, life.cause = state, self.clock.time(), status, cause
        life.path = (*life.path, *path)
        for stretches in life.holds.values():
            stretches[-1] = (stretches[-1][0], stretches[-1][1] or life.ended)
        if life.still_since is not None:
            life.still, life.still_since = life.still + life.ended - life.still_since, None

    def ends(self, life: Life, status: int = 0) -> None:
        """Let the program of a job end by itself."""
        self.cluster.end(life.job, status)
        self.over(life, "Terminated", ("Finishing", "Terminated"), status, "exit status" if status else "")

    def deleted(self, life: Life) -> None:
        """Delete a job, and let that be done."""
        self.cluster.delete(life.job)
        runs = life.started is not None
        self.over(life, "Error", ("Finishing", "Error") if runs else ("Error",), 15 if runs else None, "oardel")

    def ran(self, kind: str, seconds: float, *requests: str, cores: int = 1, status: int = 0, **values: Any) -> Life:
        """Let a job wait half a minute for its turn, run for so long, and end by itself."""
        life = self.one(kind, *requests, **values)
        life.chosen = len(requests) - 1 if requests else 0
        self.clock.jump(30 * SECOND)
        self.begun(life, cores)
        self.wait(seconds)
        self.ends(life, status)
        return life

    def file_away(self) -> None:
        """Count what is over, and put it into the past, ten weeks later."""
        while account(self.connection, DAY):
            pass
        self.wait(70 * DAY)
        while file_away(self.connection, self.clock.datetime(), 30 * DAY):
            pass
        (left,) = self.sql("SELECT coalesce(array_agg(job_id), '{}') FROM jobs")
        for life in self.lives:
            life.filed = life.job not in left[0]

    # the kinds

    def make(self) -> None:
        """Make one job of every kind that ends, one after the other."""
        self.ordinary()
        self.unfortunate()
        self.best_effort()
        self.suspended()
        self.reservations()
        self.on_other_hosts()
        self.together()
        self.resized()
        self.windows()
        self.bags()
        self.missed()

    def ordinary(self) -> None:
        """Let jobs end by themselves, well or not."""
        fine = self.one("fine", "/nodes=1/core=2,memory=4,walltime=0:20:0", project="p1", name="flow")
        self.clock.jump(60 * SECOND)
        self.begun(fine, 2)
        fine.amounts = {self.cluster.hosts(fine.job)[0]: 4}
        self.wait(600)
        self.looks[fine.job] = LookedAt(fine.job, 2, 2, 1.5, 3 << 20, 2 << 20, 1 << 30)
        gpu_uses.record(self.connection, list(self.looks.values()), LOOK)
        self.measured(fine, 900.5, 2)
        failed = self.ran("failed", 300, cores=1, status=256, user="bob")
        self.predicted |= {fine.job: 900.0, failed.job: 200.0}
        run_predictions.write(self.connection, "last2", {job: self.predicted[job] for job in (fine.job, failed.job)})
        self.was_mapped(fine.job, 800.0)
        self.ran("moldable", 120, "/nodes=9", "/core=3,walltime=0:30:0", cores=3)
        licensed = self.one("licensed", "/core=1+{type = 'licence'}/resource_id=1")
        self.begun(licensed, 1, 1)
        self.wait(60)
        self.ends(licensed)
        self.ran("interactive", 240, interactive=True)
        members = self.submit("array", size=3, project="p1", user="bob")
        for life in members:
            self.begun(life, 1)
        self.wait(90)
        for life, status in zip(members, (0, 0, 512), strict=True):
            self.ends(life, status)

    def was_mapped(self, job: int, seconds: float) -> None:
        """Have the processes of a job mapped, which is over."""
        asked = {"processes": 4, "iterations": 100, "sizes": ["a"], "model": "sync"}
        rates.map_job(self.connection, job, ProgramKey("", "/p", 1, 1, ""), asked, 2, own_walltime=False)
        settled = SettledRow(job, seconds, 880, {"slow": 1, "fast": 1}, {"fast": [("a", 4, 25.0, 1)]})
        mapped_jobs.settle(self.connection, [settled], "kind")
        self.mapped[job] = seconds

    def measured(self, life: Life, seconds: float, peak: int) -> None:
        """Let a job end whose node measured it."""
        node = self.cluster.node(self.cluster.hosts(life.job)[0])
        key = self.cluster.key(life.job)
        job = node.jobs[key]
        assert job.started is not None
        job.ended = Ended(
            key, 0, "exited", job.started.start, self.clock.time(), cpu_seconds=seconds, memory_peak=peak
        )  # fmt: skip
        self.cluster.nodes.inbox.put(node.name, [job.ended])
        life.used = (seconds, peak)
        self.over(life, "Terminated", ("Finishing", "Terminated"), 0)

    def unfortunate(self) -> None:
        """Let jobs end otherwise than their users meant them to."""
        waiting = self.one("deleted while it waits", user="bob", hold=True)
        self.wait(45)
        self.deleted(waiting)
        running = self.begun(self.one("deleted while it runs", "/nodes=1"), 2)
        self.wait(120)
        self.deleted(running)
        late = self.begun(self.one("beyond its walltime", "/core=1,walltime=0:2:0"), 1)
        self.wait(110)
        self.cluster.nodes.finish(self.cluster.hosts(late.job)[0], self.cluster.key(late.job), 15, "walltime")
        self.over(late, "Error", ("Finishing", "Error"), 15, "WALLTIME")
        self.refused()
        self.lost()
        needed = self.begun(self.one("is required"), 1)
        self.one("requires another end", dependencies=(f"ok:{needed.job}",))
        self.wait(30)
        self.ends(needed, 256)

    def refused(self) -> None:
        """Let a node refuse the start of a job for the job's own reason."""
        for node in NODES:
            self.cluster.node(node).refusal = "WORKING_DIRECTORY"
        job = self.one("is refused by its node")
        self.cluster.settle()
        self.holds(job, 1)
        self.over(job, "Error", ("toLaunch", "Launching", "Finishing", "Error"), None, "WORKING_DIRECTORY")
        for node in NODES:
            self.cluster.node(node).refusal = ""

    def lost(self) -> None:
        """Let the node of a job die, which is repaired."""
        job = self.begun(self.one("is lost with its node", "{host = 'n4'}/nodes=1"), 2)
        self.wait(75)
        self.cluster.nodes.reboot("n4")
        self.cluster.settle()
        self.clock.advance(60 * SECOND)  # so that the launcher tries again, which goes by the time that really passed
        self.over(job, "Error", ("Finishing", "Error"), None, "JOB_LOST")

    def best_effort(self) -> None:
        """Let a job give way to another, and its copy run later."""
        types = ("besteffort", "idempotent")
        job = self.begun(self.one("gave way", "/nodes=4", queue="besteffort", types=types, user="bea"), 8)
        self.wait(200)
        other = self.one("took its place", "/nodes=1")
        self.over(job, "Error", ("Finishing", "Error"), 15, "BESTEFFORT_KILL")
        self.begun(other, 2)
        ((copy,),) = self.sql("SELECT job_id FROM jobs WHERE resubmit_of = %s", job.job)
        again = Life(
            "its copy", copy, job.requests, job.walltimes, job.given, job.ended or 0, job.array, copy_of=job.job
        )  # fmt: skip
        self.lives.append(again)
        self.wait(60)
        self.ends(other)
        self.begun(again, 8)
        self.wait(100)
        self.ends(again)

    def suspended(self) -> None:
        """Let a job stand still for five minutes."""
        job = self.begun(self.one("stood still", "/core=2"), 2)
        self.wait(100)
        self.suspend(job)
        self.wait(300)
        self.resume(job)
        self.wait(200)
        self.ends(job)

    def _act(self, act: Any, life: Life, **values: Any) -> None:
        session = UserSession(self.connection, SETTINGS, life.user, 1000, is_admin=True)
        act(session, JobSelection((life.job,)), **values)
        self.cluster.settle()

    def suspend(self, life: Life) -> None:
        """Let a job stand still."""
        self._act(actions.hold, life, running=True)
        life.state, life.path, life.still_since = "Suspended", (*life.path, "Suspended"), self.clock.time()
        for stretches in life.holds.values():
            stretches[-1] = (stretches[-1][0], self.clock.time())

    def resume(self, life: Life) -> None:
        """Let it go on."""
        assert life.still_since is not None
        self._act(actions.resume, life)
        life.still, life.still_since = life.still + self.clock.time() - life.still_since, None
        life.state, life.path = "Running", (*life.path, "Resuming", "Running")
        for stretches in life.holds.values():
            stretches.append((self.clock.time(), None))

    def at(self, seconds: float) -> datetime:
        """Return the instant so long after now, a whole second."""
        return datetime.fromtimestamp(int(self.clock.time() + seconds), UTC)

    def reservations(self) -> None:
        """Let reservations be accepted, refused, offered another start, and missed."""
        first = self.one("is reserved", "/nodes=4,walltime=0:10:0", reservation=self.at(600), user="bob")
        self.accepted(first)
        refused = self.one("is refused", "/nodes=1,walltime=0:10:0", reservation=self.at(700))
        self.over(refused, "Error", ("toError", "Error"), None, "RESERVATION_REFUSED")
        self.offered[refused.job] = [(first.reservation or 0) - 600, (first.reservation or 0) + 600]
        self.wait(600)
        self.begun(first, 8)
        self.wait(240)
        self.ends(first)
        strict = self.one("may not move", "/nodes=4,walltime=0:10:0", reservation=self.at(600))
        self.accepted(strict)
        self.cluster.delete(strict.job)
        self.over(strict, "Error", ("Error",), None, "oardel")

    def accepted(self, life: Life) -> None:
        """Let a reservation be accepted."""
        self.cluster.settle()
        life.answer, life.path = "Scheduled", (*life.path, "toAckReservation", "Waiting")
        life.chosen, life.walltime = 0, life.walltimes[0]

    def on_other_hosts(self) -> None:
        """Let jobs hold nodes that are left alone."""
        for kind in ("deploy", "cosystem"):
            job = self.begun(self.one(kind, "/nodes=1", types=(kind,)), 2)
            self.wait(60)
            self.cluster.nodes.finish("h1", self.cluster.key(job.job))
            self.over(job, "Terminated", ("Finishing", "Terminated"), 0)
        noop = self.begun(self.one("noop", "/core=1,walltime=0:5:0", types=("noop",)), 1)
        self.wait(300)
        self.over(noop, "Terminated", ("Finishing", "Terminated"), 0)

    def together(self) -> None:
        """Let jobs run inside others, and beside others on the same cores."""
        box = self.begun(self.one("container", "/nodes=2", types=("container=box",)), 4)
        inner = self.begun(self.one("inner", "/core=1,walltime=0:10:0", types=("inner=box",)), 1)
        self.wait(60)
        self.ends(inner)
        self.ends(box)
        shared = [self.begun(self.one("shares", "/core=8", types=("timesharing=*,*",)), 8) for _ in range(2)]
        self.wait(60)
        for life in shared:
            self.ends(life)

    def resized(self) -> None:
        """Let a job run longer than it asked for, and one get a node and give it back."""
        longer = self.begun(self.one("longer", "/core=1,walltime=0:5:0"), 1)
        change = walltime_changes.RequestedChange(longer.job, 600, "ann")
        walltime_changes.ask(self.connection, change, "")
        self.cluster.settle()
        longer.walltime, longer.more_asked = 900, 600
        self.wait(600)
        self.ends(longer)
        grown = self.begun(self.one("grown", "{host = 'n1'}/nodes=1", user="bob"), 2)
        self.wait(600)
        self.grow(grown, [3, 4])
        self.wait(900)
        assert resizes.order(self.connection, grown.job, "release", [3, 4]) is not None
        self.cluster.settle()
        for one in (3, 4):
            grown.holds[one][-1] = (grown.holds[one][-1][0], self.clock.time())
        self.wait(300)
        self.measured(grown, 2700.0, 1000)

    def grow(self, life: Life, resources: list[int]) -> None:
        """Do as a pass that grants a job more resources."""
        asked = (
            "INSERT INTO extensions (job_id, kind, hosts) VALUES (%s, 'firm', '{\"all\": 1}') RETURNING extension_id"
        )
        ((extension,),) = self.sql(asked, life.job)
        self.sql("UPDATE extensions SET state = 'Granting' WHERE extension_id = %s", extension)
        self.sql(
            "INSERT INTO resizes (job_id, kind, resource_ids, extension_id) VALUES (%s, 'grant', %s, %s)",
            life.job, resources, extension,
        )  # fmt: skip
        self.sql(
            "INSERT INTO assigned_resources (job_id, resource_id, during, extension_id)"
            " SELECT %s, r, tstzmultirange(tstzrange(clock_timestamp(), NULL)), %s FROM unnest(%s::int[]) AS r",
            life.job, extension, resources,
        )  # fmt: skip
        self.cluster.settle()
        life.came_later |= set(resources)
        life.holds |= {one: [(self.clock.time(), None)] for one in resources}

    def windows(self) -> None:
        """Let a reservation move for another, and one that is refused take what it is offered."""
        flexible = self.one("moves", "/nodes=4,walltime=1:0:0", reservation=self.at(7200), until=self.at(21600))
        self.accepted(flexible)
        strict = self.one("moved it", "/nodes=4,walltime=1:0:0", reservation=self.at(7200))
        self.accepted(strict)
        flexible.reservation = (strict.reservation or 0) + 3600
        refused = self.one("is offered others", "/nodes=4,walltime=1:0:0", reservation=self.at(7500))
        self.over(refused, "Error", ("toError", "Error"), None, "RESERVATION_REFUSED")
        self.offered[refused.job] = [(strict.reservation or 0) - 3600, (strict.reservation or 0) + 3600]
        for life in (flexible, strict):
            self.cluster.delete(life.job)
            self.over(life, "Error", ("Error",), None, "oardel")

    def bags(self) -> None:
        """Let the promise of a bag improve, one break for a task that is run again, and one bag be refused."""
        tasks = self.bag("task", 8)
        bag = self.promised[tasks[0].job]
        self.tasks_begin(tasks[:6])
        self.wait(300)
        for life in tasks[:2]:
            self.ends(life)
        self.tasks_begin(tasks[6:])
        self.wait(60)
        for life in tasks[2:]:
            self.ends(life)
        bag |= {"promised": bag["submitted_at"] + 1200, "promise": self.clock.time() - 60 + 600, "improvements": 1}
        bag["completed"] = self.clock.time()
        again = self.bag("task that is run again", 6, "idempotent", strict=True, until=self.at(900))
        bag = self.promised[again[0].job]
        self.tasks_begin(again)
        self.wait(400)
        self.ends(again[0], 256)
        ((copy,),) = self.sql("SELECT job_id FROM jobs WHERE resubmit_of = %s", again[0].job)
        first = again[0]
        self.lives.append(
            Life("its second try", copy, first.requests, first.walltimes, first.given, first.ended or 0, first.array,
                 copy_of=first.job)
        )  # fmt: skip
        self.tasks_begin(self.lives[-1:])
        self.wait(100)
        for life in (*again[1:], self.lives[-1]):
            self.ends(life)
        bag |= {"promised": bag["deadline"], "promise": (first.ended or 0) + 600, "completed": self.clock.time()}
        bag |= {"broken": 1, "broken_because": "tasks that failed are run again, and there was no room for them before"}
        refused = self.bag("task of a refused bag", 20, strict=True, until=self.at(900))
        for life in refused:
            cause = (
                "REFUSED" if life is refused[0] else "NOT_PROMISED"
            )  # the events of a bag are those of its first job
            self.over(life, "Error", ("toError", "Error"), None, cause)
        self.promised[refused[0].job] |= {"refused": True}

    def bag(self, kind: str, tasks: int, *types: str, **values: Any) -> list[Life]:
        """Submit a bag of tasks of ten minutes, of which six can run at once."""
        lives = self.submit(
            kind, "/core=1,walltime=0:10:0", size=tasks, bag=tasks, types=("bag", *types), user="bob", **values
        )  # fmt: skip
        until = values.get("until")
        self.promised[lives[0].job] = {
            "bag_id": lives[0].job, "tasks": tasks, "deadline": until and until.timestamp(),
            "strict": "strict" in values, "refused": False, "submitted_at": self.clock.time(), "promised": None,
            "promise": None, "completed": None, "improvements": 0, "broken": 0, "broken_because": "",
        }  # fmt: skip
        return lives

    def tasks_begin(self, tasks: list[Life]) -> None:
        """Let tasks of a bag be accepted, and begin."""
        self.cluster.settle()
        for life in tasks:
            life.answer, life.path = "Scheduled", (*life.path, "toAckReservation", "Waiting")
            life.reservation = self.clock.time()
            self.begun(life, 1)

    def missed(self) -> None:
        """Let the nodes of a reservation be away when it is to start."""
        job = self.one("is missed", "/nodes=4,walltime=0:10:0", reservation=self.at(600))
        self.accepted(job)
        self.sql("UPDATE resources SET state = 'Absent' WHERE type = 'default'")
        away = self.clock.time()
        self.wait(1300)
        self.over(job, "Error", ("toError", "Error"), None, "RESERVATION_NO_NODE")
        self.sql("UPDATE resources SET state = 'Alive' WHERE type = 'default'")
        self.absences.append((away, self.clock.time()))
        self.cluster.settle()

    def restored(self) -> None:
        """Let the database be the copy of an older one, of which a node remembers a job that the copy has not."""
        key = JobKey(900, 1)
        ran = RecalledJob(key, "rex", 2, self.clock.time() - 600).replace(
            end=self.clock.time() - 300, status=256, reason="exited"
        )  # fmt: skip
        self.cluster.node("n2").past[key] = ran
        rewrite(self.connection, "UPDATE generations SET copy = 'the one that is lost'")
        self.cluster.restart_launcher()
        self.cluster.settle()
        self.restored_at = self.clock.time()

    def present(self) -> None:
        """Make jobs of every kind that is not over, on three nodes: the fourth is drained."""
        with self.connection.transaction():
            self.sql("UPDATE resources SET drain = true WHERE network_address = 'n4'")
            self.sql("UPDATE nodes SET away_reason = 'a new disk' WHERE network_address = 'n4'")
        self.drained_at = self.clock.time()
        runs = self.begun(self.one("runs", "{host = 'n1'}/core=1,memory=4", user="bob", project="p1"), 1)
        runs.amounts = {"n1": 4}
        still = self.begun(self.one("stands still", "{host = 'n1'}/core=1"), 1)
        self.begun(self.one("may give way", "{host = 'n2'}/core=1", queue="besteffort", types=("besteffort",)), 1)
        box = self.begun(self.one("holds others", "{host = 'n3'}/core=2", types=("container=c",)), 2)
        self.begun(self.one("is inside", "/core=1,walltime=0:30:0", types=("inner=c",)), 1)
        self.wait(300)
        self.suspend(still)
        self.submit("waits", "/core=6,walltime=0:30:0", size=2, user="bob")
        self.one("waits for a job", dependencies=(str(box.job),))
        self.one("is held", "/core=1", "/core=2,walltime=2:0:0", hold=True)
        self.accepted(self.one("will begin", "/nodes=2,walltime=0:20:0", reservation=self.at(86400)))
        change = walltime_changes.RequestedChange(runs.job, 7200, "bob")
        walltime_changes.ask(self.connection, change, "")
        runs.more_asked = 7200
        self.wait(200)
        self.cluster.delete(box.job)
        box.cause = "asked"


def _walltime(text: str) -> int:
    request = parse_request(text)
    return request.walltime or 3600


def _without_walltime(text: str) -> str:
    return text.partition(",walltime=")[0]
