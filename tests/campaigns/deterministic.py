"""A cluster in virtual time whose modules are killed after any statement and message; equal seeds, equal histories.

``python -m tests.campaigns.deterministic --seeds 1000`` runs it by hand. The meta-scheduler, launcher, canceller,
monitor and accounting are the real ones, in one process, on a real PostgreSQL; Python and SQL read one virtual clock.
A seed draws what users do, what fails, which module runs next, and after which statement or message it is killed.
After each step an oracle checks what users were told; at the end nothing may be stuck, doubled, lost or held.

A smaller round is a test.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import structlog

from oarpy.client.jobs import actions
from oarpy.client.jobs.running import walltime_changes
from oarpy.client.jobs.selection import JobSelection
from oarpy.client.session import Session as UserSession
from oarpy.model.errors import OarpyError
from oarpy.model.request import parse_request
from oarpy.model.submission import Submission
from oarpy.negotiation.requests import resizing
from oarpy.postgres import embedded_server
from oarpy.store.jobs import submissions
from tests.campaigns.interleaving import run_together
from tests.campaigns.told import Oracle
from tests.campaigns.virtual_cluster import MODULES, NODES, Counts, Doom, Process, VirtualCluster, Wrong
from tests.harness import bare_environment, virtual_time
from tests.harness.virtual_time import BEGIN, SECOND

STEPS = 100
"""Of a seed, by default."""
_CALM_ROUNDS = 600
_STILL, _STUCK = 600 * SECOND, 7200 * SECOND
"""For how long no job changes before something is wrong: when all are over and counted, and when they are not."""
_SLOWNESS = SECOND // 2
"""For how long a module that is woken hears more, while all is calm."""
_AWAY = 300 * SECOND
"""For how long nodes stay away at the end of a seed: longer than it takes to give them up."""
_HOPELESS = """
    SELECT j.job_id FROM job_dependencies d JOIN jobs j USING (job_id) JOIN jobs r ON r.job_id = d.required_job_id
    WHERE j.state = 'Waiting' AND r.state IN ('Terminated', 'Error') AND d.outcome <> 'any'
      AND (d.outcome = 'ok') <> (r.state = 'Terminated' AND coalesce(r.exit_status, 0) = 0)
      AND NOT EXISTS (SELECT FROM kill_requests k WHERE k.job_id = j.job_id)
"""
_DETAILS = re.compile(r"[0-9.]+|[:,\[{(].*")
_STATEMENT = re.compile(r"\d+ \w+ [0-9a-f]{8}")
USERS = ("ann", "bob", "eve")

SERVER_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "autovacuum": "off",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One step: what it is about, and a number from which all its choices are drawn, as to be ``struck``."""

    kind: str
    salt: int
    struck: bool = True


@dataclass(slots=True)
class Result:
    """What became of a seed."""

    seed: int
    steps: Sequence[Step]
    counts: Counts
    digest: str
    virtual: float
    """Seconds that passed on the clock."""
    real: float
    wrong: str = ""
    history: Sequence[str] = ()


class Run:
    """One run of steps on a fresh cluster."""

    def __init__(self, database: virtual_time.Database, seed: int) -> None:
        self.cluster = VirtualCluster(database, random.Random(f"messages of {seed}"))
        self.oracle = Oracle(self.cluster)
        self.cluster.on_start = self.oracle.starts
        self._struck = True

    def take(self, step: Step) -> None:
        """Take a step, and ask the oracle."""
        chance, self._struck = random.Random(step.salt), step.struck
        self.cluster.counts.steps += 1
        self.cluster.counts.seen[step.kind] += 1
        self.cluster.note(f"step {step.kind}")
        if step.kind in MODULES:
            word, _ = self.cluster.run(step.kind, self._doom(chance))
            self.oracle.ran(step.kind, word)
        else:
            KINDS[step.kind][1](self, chance)
        self.cluster.pass_time(int(chance.expovariate(1 / (2 * SECOND))))
        self.oracle.look()

    def _doom(self, chance: random.Random) -> Doom | None:
        """Draw what happens to a process: nothing, most often."""
        draw = chance.random()
        doom = None if draw > 0.45 else Doom(1 + int(chance.expovariate(1 / 6)), cut=draw < 0.1)
        return doom if self._struck else None

    def together(self, chance: random.Random) -> None:
        """Two modules run at once, or a module while somebody gives a command."""
        first, second = chance.sample((*MODULES, *(_COMMANDS if chance.random() < 0.5 else ())), 2)
        bodies = [self._body(kind, chance.getrandbits(48)) for kind in (first, second)]
        if bodies[0][0] is not bodies[1][0]:
            run_together(self.cluster, bodies, chance)

    def _body(self, kind: str, salt: int) -> tuple[Process, Callable[[], object]]:
        """Return what a module or somebody does, and the process that does it."""
        chance = random.Random(salt)
        if kind in MODULES:
            return self.cluster.processes[kind], lambda: self.cluster.run(kind, self._doom(chance))
        return self.cluster.command, lambda: KINDS[kind][1](self, chance)

    # What users do

    def submit(self, chance: random.Random) -> None:
        """Somebody submits a job, or an array."""
        user, types, queue = chance.choice(USERS), list[str](), "default"
        seconds, walltime = chance.randrange(1, 400), chance.choice((60, 200, 400))
        if chance.random() < 0.25:
            types, queue = ["besteffort"], "besteffort"
        if chance.random() < 0.3:
            types.append("idempotent")
        if not types and chance.random() < 0.1:
            types.append("noop")
        size = chance.randrange(2, 5) if chance.random() < 0.2 else 1
        reservation = None
        if not types and size == 1 and chance.random() < 0.1:
            reservation = self.cluster.clock.datetime() + timedelta(seconds=chance.randrange(60, 900))
        known = sorted(self.oracle.submitted)
        after = tuple[str, ...]()
        if known and reservation is None and chance.random() < 0.15:
            after = (chance.choice(("", "ok:", "notok:")) + str(chance.choice(known[-4:])),)
        words = chance.sample(("/core=1", "/core=2", "/nodes=1", "/nodes=2", "/core=3"), 2)
        alternatives = words if chance.random() < 0.15 else words[:1]
        asked = Submission(
            user=user,
            queue=queue,
            types=tuple(types),
            command=f"work {seconds} {chance.choice((0, 0, 0, 1, 99))}",
            directory="/tmp",
            alternatives=tuple(parse_request(f"{word},walltime=0:0:{walltime}") for word in alternatives),
            array_size=size,
            reservation=reservation,
            dependencies=after,
            hold=chance.random() < 0.03,
            checkpoint=30 if chance.random() < 0.1 else 0,
        )

        def insert(session: UserSession) -> list[int]:
            with session.connection.transaction():
                return submissions.insert(session.connection, asked)

        answered, jobs = self.cluster.act(user, insert, self._doom(chance))
        if answered:
            self.oracle.submitted |= set(jobs)

    def delete(self, chance: random.Random) -> None:
        """Somebody deletes one or two of his jobs."""
        if jobs := self._some(chance, most=2):
            answered, found = self._act(chance, lambda who: actions.delete(who, JobSelection(tuple(jobs))))
            if answered and found is not None:
                self.cluster.note(f"deleted {found.job_ids}")
                self.oracle.deleted |= set(found.job_ids)

    def hold(self, chance: random.Random) -> None:
        """Somebody holds a job that waits, or suspends one that runs."""
        if jobs := self._some(chance):
            self._act(chance, lambda who: actions.hold(who, JobSelection(tuple(jobs)), running=chance.random() < 0.8))

    def resume(self, chance: random.Random) -> None:
        """Somebody lets a job go on."""
        if jobs := self._some(chance, "Hold", "Suspended", "Resuming"):
            self._act(chance, lambda who: actions.resume(who, JobSelection(tuple(jobs))))

    def signal(self, chance: random.Random) -> None:
        """Somebody asks for a checkpoint."""
        if jobs := self._some(chance, "Running"):
            self._act(chance, lambda who: actions.checkpoint(who, JobSelection(tuple(jobs))))

    def walltime(self, chance: random.Random) -> None:
        """Somebody asks for more time, or less."""
        if jobs := self._some(chance, "Running"):
            asked = walltime_changes.WalltimeQuestion(chance.choice(("+0:10:0", "+1:0:0", "-0:2:0", "+0:1:0")))
            self._act(chance, lambda who: walltime_changes.change(who, jobs[0], asked))

    def resize(self, chance: random.Random) -> None:
        """Somebody asks for one more host, or gives one back."""
        jobs = self._some(chance, "Running")
        if not jobs:
            return
        if chance.random() < 0.6:
            kind = chance.choice(("firm", "revocable"))
            hosts = {resizing.ANY: 1} if chance.random() < 0.9 else {}
            self._act(chance, lambda who: resizing.extend(who, jobs[0], hosts, kind))
        else:
            self._act(chance, lambda who: resizing.release(who, jobs[0], [chance.choice(NODES)]))

    def _some(self, chance: random.Random, *states: str, most: int = 1) -> list[int]:
        """Choose among the jobs that users know, most of them live ones."""
        known = [job for job, seen in self.oracle.seen.items() if not states or seen.state in states]
        live = [job for job in known if self.oracle.seen[job].ended is None]
        some = live if live and chance.random() < 0.95 else known
        return sorted(chance.sample(some, min(len(some), chance.randint(1, most))))

    def _act(self, chance: random.Random, what: Callable[[UserSession], Any]) -> tuple[bool, Any]:
        """Let an owner run a command that may be refused."""

        def tried(session: UserSession) -> Any:
            try:
                return what(session)
            except OarpyError as error:
                self.cluster.note(f"refused: {error}")
                return None

        session_of_all = chance.choice(USERS)
        return self.cluster.act(session_of_all, lambda who: tried(_as_admin(who)), self._doom(chance))

    # What happens to nodes and clocks

    def end(self, chance: random.Random) -> None:
        """A program ends before its time."""
        running = [
            (name, key)
            for name in NODES
            for key, job in self.cluster.nodes.node(name).jobs.items()
            if job.started is not None and job.ended is None and job.suspended is None
        ]
        if running:
            name, key = chance.choice(running)
            self.cluster.end(name, key, chance.choice((0, 0, 1, 99)))

    def lose(self, chance: random.Random) -> None:
        """A channel is lost, for a moment or until it is mended."""
        name = chance.choice(NODES)
        self.cluster.nodes.node(name).unreachable = "no way there" if chance.random() < 0.4 else ""
        self.cluster.lose(name)

    def fail(self, chance: random.Random) -> None:
        """A node can start nothing for its own fault, or its agent dies whenever it begins to start something."""
        node = self.cluster.nodes.node(chance.choice(NODES))
        if chance.random() < 0.5:
            node.refusal, node.problem = "STATE_DIRECTORY", "its disk is full"
        else:
            node.deaf = True

    def mend(self, chance: random.Random) -> None:
        """A node can be reached again, and does what it is told."""
        self.cluster.mend(chance.choice(NODES))

    def reboot(self, chance: random.Random) -> None:
        """A node crashes, with its disk or without."""
        self.cluster.reboot(chance.choice(NODES), keep_state=chance.random() < 0.7)

    def jump(self, chance: random.Random) -> None:
        """The wall clock is set forward."""
        self.cluster.clock.jump(chance.choice((5, 60, 600, 3600)) * SECOND)

    def absent(self, chance: random.Random) -> None:
        """An admin takes a node away, or gives it back."""
        state, name = chance.choice(("Absent", "Alive", "Alive")), chance.choice(NODES)
        self.cluster.control.execute(
            "UPDATE resources SET state = %s WHERE network_address = %s AND state IN ('Alive', 'Absent')",
            [state, name],
        )

    def wait(self, chance: random.Random) -> None:
        """Some time passes."""
        self.cluster.pass_time(int(chance.expovariate(1 / chance.choice((10, 60, 300))) * SECOND))

    # The end

    def calm(self) -> None:
        """Run on until nothing is left to do, at first without the nodes that are away. Raises :class:`Wrong`."""
        cluster = self.cluster
        cluster.note("calm")
        cluster.calm = True
        nodes = [cluster.nodes.node(name) for name in NODES]
        away = [node.name for node in nodes if node.unreachable]
        for node in nodes:
            if not node.unreachable:
                cluster.mend(node.name)
        if away:
            self._go_on(cluster.clock.now + _AWAY)
            self.oracle.require_given_up(away)
        for name in NODES:
            cluster.mend(name)
        cluster.control.execute("UPDATE resources SET state = 'Alive' WHERE state = 'Absent'")
        if not self._go_on(None):
            raise Wrong("no rest: " + "; ".join(self.oracle.settled()))

    def _go_on(self, until: int | None) -> bool:
        """Run modules when they are told to, until all is over or an instant; return whether it is."""
        cluster, woken = self.cluster, set(MODULES)
        for _ in range(_CALM_ROUNDS):
            for name in MODULES:
                process = cluster.processes[name]
                if name in woken or process.due <= cluster.clock.now:
                    unasked = name not in woken and process.by_period
                    woken.discard(name)
                    word, again = cluster.run(name)
                    self.oracle.ran(name, word, unasked=unasked)
                    if again:
                        woken.add(name)
            self.oracle.look()
            self._let_go_on()
            self.oracle.look_at_nodes()
            woken |= cluster.woken()
            if not woken:
                if until is None and self.oracle.all_over() and not any(self.oracle.settled()):
                    return True
                if until is not None and cluster.clock.now >= until:
                    return True
                if self._delete_hopeless():
                    continue
                if cluster.clock.now - self.oracle.changed > (_STILL if self.oracle.all_over() else _STUCK):
                    return False
                if self._sleep():
                    woken.add("launcher")
        return False

    def _sleep(self) -> bool:
        """Let time pass until something happens, or a module runs by its clock; tell whether the launcher hears."""
        due = min(process.due for process in self.cluster.processes.values())
        heard = self.cluster.counts.heard
        upcoming = self.cluster.next_event()
        until = due if upcoming is None else min(due, upcoming)
        self.cluster.pass_time(max(until - self.cluster.clock.now, 1) + _SLOWNESS)
        return self.cluster.counts.heard > heard

    def _delete_hopeless(self) -> bool:
        """Let users delete jobs that wait for what never comes; tell whether there are any."""
        hopeless = tuple(job for (job,) in self.cluster.rows(_HOPELESS))
        if hopeless:
            self.cluster.act("ann", lambda who: actions.delete(_as_admin(who), JobSelection(hopeless)))
            self.oracle.deleted |= set(hopeless)
        return bool(hopeless)

    def _let_go_on(self) -> None:
        """Let jobs go on that users have stopped."""
        stopped = tuple(job for job, seen in self.oracle.seen.items() if seen.state in ("Hold", "Suspended"))
        if stopped:
            self.cluster.act("ann", lambda who: actions.resume(_as_admin(who), JobSelection(stopped)))
            self.oracle.look()


def _as_admin(session: UserSession) -> UserSession:
    return UserSession(session.connection, session.configuration, session.user, 0, is_admin=True)


_COMMANDS = ("submit", "delete", "hold", "resume", "walltime", "resize")
KINDS: dict[str, tuple[float, Callable[[Run, random.Random], None]]] = {
    "together": (14, Run.together),
    "submit": (14, Run.submit),
    "delete": (3, Run.delete),
    "hold": (3, Run.hold),
    "resume": (2, Run.resume),
    "signal": (2, Run.signal),
    "walltime": (2, Run.walltime),
    "resize": (3, Run.resize),
    "end": (3, Run.end),
    "lose": (1.5, Run.lose),
    "fail": (1.5, Run.fail),
    "mend": (2.5, Run.mend),
    "reboot": (1, Run.reboot),
    "jump": (0.5, Run.jump),
    "absent": (1, Run.absent),
    "wait": (8, Run.wait),
}
_WEIGHTS = {
    "metascheduler": 16.0, "launcher": 26.0, "canceller": 8.0, "monitor": 6.0, "accounting": 3.0,
    **{kind: weight for kind, (weight, _) in KINDS.items()},
}  # fmt: skip


def steps_of(seed: int, number: int) -> list[Step]:
    """Draw the steps of a seed."""
    chance = random.Random(f"steps of {seed}")
    kinds = chance.choices([*_WEIGHTS], [*_WEIGHTS.values()], k=number)
    return [Step(kind, chance.getrandbits(48)) for kind in kinds]


def run_steps(server: str, template: str, seed: int, steps: Sequence[Step]) -> Result:
    """Run steps on a fresh cluster, and return what became of it."""
    began, wrong = time.perf_counter(), ""
    with virtual_time.database(server, template) as database:
        made = Run(database, seed)
        cluster = made.cluster
        with cluster.clock.rules(), _quiet():
            try:
                for step in steps:
                    made.take(step)
                made.calm()
            except Wrong as error:
                wrong = str(error)
            finally:
                cluster.close()
        digest, virtual = cluster.digest(), (cluster.clock.now - BEGIN) / SECOND
        return Result(seed, steps, cluster.counts, digest, virtual, time.perf_counter() - began, wrong, cluster.history)


def shrink(server: str, template: str, found: Result) -> Result:
    """Leave out steps, then kills, for as long as the seed stays wrong in the same way; return what is left."""

    def try_with(steps: Sequence[Step]) -> bool:
        nonlocal found
        result = run_steps(server, template, found.seed, steps)
        if same := _kind_of(result.wrong) == _kind_of(found.wrong):
            found = result
        return same

    size = max(len(found.steps) // 2, 1)
    while size:
        place = 0
        while place < len(found.steps):
            if not try_with([*found.steps[:place], *found.steps[place + size :]]):
                place += size
        size //= 2
    for place, step in enumerate(found.steps):
        try_with([*found.steps[:place], replace(step, struck=False), *found.steps[place + 1 :]])
    return found


def _kind_of(wrong: str) -> str:
    """Return what was wrong, without the numbers and all that follows."""
    return _DETAILS.sub("", wrong)


def _told(history: Sequence[str]) -> list[str]:
    """Return the lines of a history that are not about a statement."""
    return [line for line in history if not _STATEMENT.fullmatch(line)]


@contextmanager
def _quiet() -> Iterator[None]:
    """Let modules log nothing."""
    before = structlog.get_config()
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory(), processors=[lambda *_: ""])
    try:
        yield
    finally:
        structlog.configure(**before)


@contextmanager
def own_server() -> Iterator[str]:
    """Start a server in memory; return its DSN. It goes with this process, also when that is terminated."""
    memory = Path("/dev/shm")
    with ExitStack() as stack:
        stack.callback(signal.signal, signal.SIGTERM, signal.signal(signal.SIGTERM, lambda *_: sys.exit(143)))
        place = str(memory) if os.access(memory, os.W_OK) else None
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="oarpy-virtual-", dir=place)))
        folder.chmod(0o711)
        stack.callback(embedded_server.remove, folder / "postgresql")
        yield embedded_server.start(folder / "postgresql", settings=SERVER_SETTINGS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run seeds and print what happened; exit status 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--steps", type=int, default=STEPS, help="of each seed")
    parser.add_argument("--server", help="DSN of a server that is there (default: one of its own)")
    parser.add_argument("--until-wrong", action="store_true", help="end at the first seed with something wrong")
    parser.add_argument("--shrink", action="store_true", help="leave out what a wrong seed does not need, and print it")
    parser.add_argument("--history", action="store_true", help="print what happened, line by line")
    options = parser.parse_args(arguments)
    results = []
    with own_server() if options.server is None else nullcontext(options.server) as server:
        template = virtual_time.make_template(server)
        for seed in range(options.first, options.first + options.seeds):
            result = run_steps(server, template, seed, steps_of(seed, options.steps))
            if options.history:
                print("\n".join(result.history))
            print(f"seed {seed}: {result.digest[:16]} {result.virtual:.0f} s {result.wrong}", flush=True)
            if result.wrong and options.shrink:
                least = shrink(server, template, result)
                print("\n".join(_told(least.history)))
                print(f"seed {seed}, {len(least.steps)} steps of {len(result.steps)}: {least.wrong}", flush=True)
            result.history = ()
            results.append(result)
            if result.wrong and options.until_wrong:
                break
    print(summary(results))
    return 1 if any(result.wrong for result in results) else 0


def summary(results: Sequence[Result]) -> str:
    """Say in a few lines what was done, and what came of it."""
    kinds, numbers = Counter[str](), Counter[str]()
    for result in results:
        kinds += result.counts.seen
        for name in ("steps", "statements", "messages", "kills", "cuts"):
            numbers[name] += getattr(result.counts, name)
    virtual, real = (sum(getattr(result, name) for result in results) for name in ("virtual", "real"))
    all_of_them = hashlib.sha256("".join(result.digest for result in results).encode()).hexdigest()
    return (
        ", ".join(f"{kind} {number}" for kind, number in kinds.most_common())
        + f"\n{len(results)} seeds: {numbers['steps']} steps, {numbers['statements']} statements,"
        f" {numbers['messages']} messages, {numbers['kills']} kills, {numbers['cuts']} sessions cut\n"
        f"{virtual / 3600:.0f} virtual hours in {real:.0f} s, {virtual / real:.0f} times real time\n"
        f"history {all_of_them[:16]}, {sum(bool(result.wrong) for result in results)} seeds with something wrong"
    )


if __name__ == "__main__":
    if sys.flags.hash_randomization:  # sets of names would have another order each time
        fixed = {**os.environ, "PYTHONHASHSEED": "0"}
        os.execve(sys.executable, [sys.executable, "-m", "tests.campaigns.deterministic", *sys.argv[1:]], fixed)
    bare_environment.enter()
    sys.exit(main())
