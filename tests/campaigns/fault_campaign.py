"""Everything that can break is broken, again and again, while jobs are in flight; then the books are checked.

``python -m tests.campaigns.fault_campaign`` (as root) runs it: a server, nodes in network namespaces, jobs that leave
marks, and from one seed a random order of faults: SIGKILL and SIGSTOP of every kind of process, restarts of the
database, full disks, cut networks, rebooted nodes (disk kept and lost), a clock that jumps. It prints a table of
faults and outcomes.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from oarpy.local_cluster.sandbox import Sandbox, Settings
from oarpy.model.errors import OarpyError
from oarpy.postgres import embedded_server
from research.benchmarks.server_processes import environment_of
from tests.campaigns.books import QUESTIONS, wrong_books
from tests.campaigns.evidence import keep_files, keep_tables
from tests.campaigns.feeder import Feeder
from tests.campaigns.namespace_nodes import NamespaceNode, NodeFarm, isolate, run_nodes
from tests.harness import bare_environment
from tests.harness.dead_file_system import why_not
from tests.harness.passable_folder import passable_folder
from tests.harness.server_processes import DATABASE, SERVER_KINDS, SESSION, agents, busy_supervisors, server_pids

NODES, CORES = 6, 4
LOST_TIMEOUT = 15.0
_SETTLING = 40.0
"""Seconds after a fault in which a job may end because of it: the monitor's patience, and what it sets going."""
_DEADLINE = 1200.0
"""Seconds for all that is live after the last fault: it depends on what else the machine does."""

BATCH = 1500
"""Jobs that are started together on one node, whose agent is killed meanwhile."""
_BATCH_NODE = "big"
LONGEST_LAUNCH = 120.0
"""Seconds for which a job may be Launching: a cut, then the time in which a node must answer a start, and some."""

STOPPED = "job supervisor stopped for good"

HARMLESS = (
    *(f"SIGKILL {kind}" for kind in (*SERVER_KINDS, "agent", DATABASE, SESSION)),
    *(f"SIGSTOP {kind}" for kind in (*SERVER_KINDS, "agent", DATABASE, SESSION)),
    "job supervisor stopped",
    STOPPED,
    "database restarted",
    "clock ahead",
    "clock behind",
)
"""Faults that may end no job."""
DEAD_FILES, WIPED = "file system dead", "state folder wiped"
DEADLY = (
    "job supervisor killed",
    "network cut",
    "disk full",
    "reboot, disk kept",
    "reboot, disk lost",
    DEAD_FILES,
    WIPED,
)
"""Faults after which jobs of the node may end in Error."""


@dataclass(slots=True)
class Fault:
    """One fault that struck: when it began and was healed (epoch seconds), and on which node, if on one."""

    kind: str
    node: str
    began: float
    healed: float = 0.0
    live: int | None = None
    """Jobs that were live when it began, if the database could be asked."""
    ended: list[int] = field(default_factory=list)
    """Jobs that ended in Error because of it."""


@dataclass(slots=True)
class _Pending:
    fault: Fault
    due: float
    heal: Callable[[], None]


@dataclass(slots=True)
class Campaign:
    """One run: ``count`` faults while ``jobs`` jobs are live, all choices from ``seed``; cuts last ``cut`` seconds."""

    sandbox: Sandbox
    farm: NodeFarm
    seed: int
    jobs: int
    count: int
    cut: float
    feeder: Feeder
    batch: int = BATCH
    faults: list[Fault] = field(default_factory=list)
    _pending: list[_Pending] = field(default_factory=list)

    def run(self) -> list[str]:
        """Run it; return what is wrong with the books at the end (nothing, if all is well)."""
        chance = random.Random(self.seed)
        self.sandbox.create()
        self.sandbox.start()
        for node in self.farm.nodes:
            where = ["--transport", "ssh", "--address", node.address, "--port", "22"]
            self.sandbox.run("oaradmin", "resources", "add", f"/host={node.name}/cpu={{1}}/core={{{CORES}}}", *where)
        left = self.jobs
        while left > 0:
            left -= self.feeder.submit(left)
        kinds = [kind for kind in (*HARMLESS, *DEADLY) if "clock" not in kind or self.farm.nodes[0].has_clock]
        if why_not():
            print(f"skipped: {DEAD_FILES}: {why_not()}")
            kinds.remove(DEAD_FILES)
        plan = [kinds[number % len(kinds)] for number in range(self.count)]
        chance.shuffle(plan)
        with self.feeder.keeping(self.jobs):
            self._strike_all(plan, chance)
        self._wait_for_ends()
        if self.batch:
            self._start_together(chance)
        self._attribute()
        return self._wrong()

    def _start_together(self, chance: random.Random) -> None:
        """Start many jobs at once on one node, and kill its agent in the middle, some times."""
        node = self.farm.nodes[1]
        where = ["--transport", "ssh", "--address", node.address, "--port", "22"]
        cores = f"/host={_BATCH_NODE}/cpu={{1}}/core={{{self.batch}}}"
        self.sandbox.run("oaradmin", "resources", "add", cores, *where)
        self.feeder.submit_batch(self.batch, _BATCH_NODE)
        for _ in range(3):
            self._wait_for_launching()
            fault = Fault(f"SIGKILL agent, {self.batch} starts", node.name, time.time(), live=self.batch)
            _signal(agents(node.processes()), signal.SIGKILL)
            fault.healed = time.time()
            self.faults.append(fault)
            time.sleep(chance.uniform(0.5, 3.0))
        self._wait_for_ends()

    def _wait_for_launching(self) -> None:
        """Wait until jobs are being started, or none is left to be."""
        query = (
            "SELECT count(*) FILTER (WHERE state = 'Launching'), count(*) FILTER (WHERE state = 'Waiting') FROM jobs"
        )
        with psycopg.connect(self.sandbox.dsn(), autocommit=True) as connection:
            while (row := connection.execute(query).fetchone()) and not row[0] and row[1]:
                time.sleep(0.01)

    def longest_launch(self) -> float:
        """Return for how many seconds a job was Launching at most."""
        with psycopg.connect(self.sandbox.dsn()) as connection:
            row = connection.execute(_LONGEST_LAUNCH).fetchone()
        return float(row[0]) if row else 0.0

    def _strike_all(self, plan: list[str], chance: random.Random) -> None:
        """Strike, and heal in time: nothing here asks the database, which may stand still until it is healed."""
        try:
            while plan:
                self._heal_due()
                targets = ((number, self._target(kind, chance)) for number, kind in enumerate(plan))
                number, target = next(((n, found) for n, found in targets if found is not None), (0, None))
                if target is not None:
                    self._strike(plan.pop(number), target, chance)
                time.sleep(chance.uniform(0.1, 0.6))
        finally:
            while self._pending:  # also when this fails: what is stopped would be waited for
                self._heal_due()
                time.sleep(0.05)

    def table(self) -> str:
        """Faults x outcomes: how many struck, how many jobs were live on average, what ended because of them."""
        lines = [f"{'fault':<32}{'times':>6}{'jobs live':>11}{'ended in Error':>16}"]
        for kind in dict.fromkeys((*HARMLESS, *DEADLY, *(fault.kind for fault in self.faults))):
            these = [fault for fault in self.faults if fault.kind == kind]
            if these:
                known = [fault.live for fault in these if fault.live is not None]
                live = f"{sum(known) / len(known):.0f}" if known else "?"
                lines.append(f"{kind:<32}{len(these):>6}{live:>11}{sum(len(f.ended) for f in these):>16}")
        return "\n".join(lines)

    def outcomes(self) -> str:
        """How many jobs ended how."""
        with psycopg.connect(self.sandbox.dsn()) as connection:
            rows = connection.execute(
                "SELECT state, resubmit_of IS NOT NULL, count(*) FROM jobs GROUP BY 1, 2 ORDER BY 1, 2"
            ).fetchall()
        ends = ", ".join(f"{state}{' (resubmitted)' if again else ''} {count}" for state, again, count in rows)
        return f"{ends}; oarsub said {self.feeder.refused} times that nothing could be reached"

    def keep_evidence(self, folder: Path) -> None:
        """Leave in ``folder`` what tells of the run: tables, logs, disks of the nodes, the faults with their times."""
        base = self.sandbox.directory.parent
        folder.mkdir(parents=True, exist_ok=True)
        lines = [f"{fault.began:.3f} {fault.healed:.3f} {fault.kind} {fault.node}" for fault in self.faults]
        (folder / "faults").write_text("\n".join(lines) + "\n")
        cluster = self.sandbox.directory
        disks = [path for node in self.farm.nodes for path in (node.state, node.directory / "sshd.log")]
        keep_files([cluster / "server.log", cluster / "work" / "marks", *disks], folder, base)
        with suppress(psycopg.Error, OarpyError):  # the database may be what is wrong
            keep_tables(self.sandbox.dsn(), folder / "tables")

    def _wait_for_ends(self) -> None:
        until = time.monotonic() + _DEADLINE
        query = (
            "SELECT count(*) FILTER (WHERE state NOT IN ('Terminated', 'Error')),"
            " count(*) FILTER (WHERE ended_at IS NOT NULL AND NOT accounted) FROM jobs"
        )
        while True:
            self._revive()
            row = None
            with suppress(psycopg.OperationalError, OarpyError), psycopg.connect(self.sandbox.dsn()) as connection:
                row = connection.execute(query).fetchone()
            if row == (0, 0):
                return
            if time.monotonic() > until:
                raise OarpyError(f"after {_DEADLINE:g} s (live jobs, unaccounted jobs) are still {row}")
            time.sleep(0.1)

    # Faults ---------------------------------------------------------------------------------------------------------

    def _target(self, kind: str, chance: random.Random) -> NamespaceNode | str | None:
        """What the fault strikes: a node that is whole (never the last ones), or the server (""); None: not now."""
        busy = {pending.fault.node for pending in self._pending if pending.fault.node}
        standing = {pending.fault.kind for pending in self._pending}
        if standing & {f"SIGSTOP {DATABASE}", "SIGSTOP supervisor"}:
            return None
        if kind == "database restarted" and f"SIGSTOP {SESSION}" in standing:
            return None  # it would wait for the session, and so this process would, which is to let it go on
        if "clock" in kind:
            return None if self.farm.nodes[0].name in busy else self.farm.nodes[0]
        if kind in DEADLY or kind.endswith(" agent") or kind in ("job supervisor stopped", STOPPED):
            whole = [node for node in self.farm.nodes if node.name not in busy]
            if len(whole) <= 2:
                return None
            if kind.startswith("job supervisor"):
                # one without a job would be no fault; when no job is left that must do
                whole = [node for node in whole if busy_supervisors(node.processes())] or whole * (
                    self.feeder.live == 0
                )
            return chance.choice(whole) if whole else None
        return None if kind in standing else ""

    def _strike(self, kind: str, target: NamespaceNode | str, chance: random.Random) -> None:
        name = target.name if isinstance(target, NamespaceNode) else ""
        fault = Fault(kind, name, time.time(), live=self.feeder.live)
        self.faults.append(fault)
        pause, heal = self._blow(kind, target, chance)
        self._pending.append(_Pending(fault, time.monotonic() + pause, heal))

    def _blow(self, kind: str, target: NamespaceNode | str, chance: random.Random) -> tuple[float, Callable[[], None]]:
        """Do it; return how many seconds it lasts, and how it is healed."""
        word, _, what = kind.partition(" ")
        if isinstance(target, NamespaceNode) and what != "agent":
            return self._blow_node(kind, target, chance)
        if kind == "database restarted":
            embedded_server.stop(self.sandbox.directory / "postgresql")
            return 0.0, self._revive
        pids = self._pids(what, target)
        if what == SESSION:
            pids = [chance.choice(pids)]
        _signal(pids, signal.SIGKILL if word == "SIGKILL" else signal.SIGSTOP)
        if word == "SIGKILL":
            return 0.3, self._revive
        return chance.uniform(1, 4), lambda: _signal(pids, signal.SIGCONT)

    def _blow_node(self, kind: str, node: NamespaceNode, chance: random.Random) -> tuple[float, Callable[[], None]]:
        match kind:
            case "job supervisor killed":
                _signal(busy_supervisors(node.processes())[:1], signal.SIGKILL)
                return 0.0, lambda: None
            case "job supervisor stopped":
                stopped = busy_supervisors(node.processes())[:1]
                _signal(stopped, signal.SIGSTOP)
                return chance.uniform(1, 4), lambda: _signal(stopped, signal.SIGCONT)
            case _ if kind == STOPPED:
                _signal(busy_supervisors(node.processes())[:1], signal.SIGSTOP)
                return 15.0, lambda: None
            case _ if kind == DEAD_FILES:
                return chance.uniform(5, 45), node.kill_files(self.sandbox.directory / "work")
            case _ if kind == WIPED:
                node.wipe_state()
                return 0.0, lambda: None
            case "network cut":
                node.cut()
                return self.cut, node.mend
            case "disk full":
                node.fill_disk()
                return chance.uniform(2, 6), node.free_disk
            case "clock ahead" | "clock behind":
                node.set_clock(7200 if kind == "clock ahead" else -7200)
                return chance.uniform(2, 6), lambda: node.set_clock(0)
            case _:
                node.reboot(keep_state=kind == "reboot, disk kept")
                return 0.0, lambda: None

    def _pids(self, kind: str, target: NamespaceNode | str) -> list[int]:
        """The processes of a kind; wait, within reason, until there are some.

        An agent comes back with its channel: after the healing of what stopped the launcher, the database or the node,
        and the launcher's back-off (up to 5 s) and log-in. What died on the server is started again within a second.
        """
        until = time.monotonic() + 30
        while True:
            found = agents(target.processes()) if isinstance(target, NamespaceNode) else self._server_pids(kind)
            if found:
                return found
            self._heal_due()
            self._revive()
            if time.monotonic() > until:
                raise OarpyError(f"no {kind} came up again within 30 s")
            time.sleep(0.05)

    def _server_pids(self, kind: str) -> list[int]:
        server = self.sandbox.server
        if server is None or server.poll() is not None:
            return []
        return server_pids(kind, server.pid, self.sandbox.directory / "postgresql")

    def _heal_due(self) -> None:
        now = time.monotonic()
        for pending in [pending for pending in self._pending if pending.due <= now]:
            self._pending.remove(pending)
            pending.heal()
            pending.fault.healed = time.time()

    def _revive(self) -> None:
        """What systemd would do: a server that is gone is started again."""
        if self.sandbox.server is None or self.sandbox.server.poll() is not None:
            self.sandbox.start()

    # Books ----------------------------------------------------------------------------------------------------------

    def _attribute(self) -> None:
        """Note at each deadly fault which jobs on its node ended in Error with it."""
        with psycopg.connect(self.sandbox.dsn()) as connection:
            rows = connection.execute(_ERRORS).fetchall()
        for job, ended, nodes in rows:
            causes = [
                fault
                for fault in self.faults
                if fault.kind in DEADLY and fault.node in nodes and fault.began - 1 <= ended <= fault.healed + _SETTLING
            ]
            if causes:
                causes[-1].ended.append(job)

    def _wrong(self) -> list[str]:
        explained = {job for fault in self.faults for job in fault.ended}
        with psycopg.connect(self.sandbox.dsn(), autocommit=True) as connection:
            wrong = wrong_books(connection, [name for name in QUESTIONS if name not in _EXPECTED])
            errors = connection.execute("SELECT job_id, message FROM jobs WHERE state = 'Error' ORDER BY 1").fetchall()
            wrong += [
                f"job {job} ended in Error for no reason: {why}; {self._circumstances(connection, job)}"
                for job, why in errors
                if job not in explained
            ]
            for question, query in _MORE.items():
                rows = connection.execute(query).fetchall()
                if rows:
                    wrong.append(f"{question}: {rows[:5]}")
            longest = self.longest_launch()
            if longest > LONGEST_LAUNCH:
                wrong.append(f"a job was Launching for {longest:.0f} s")
            states: dict[int, str] = dict(connection.execute("SELECT job_id, state FROM jobs").fetchall())
        wrong += [f"job {job} was submitted and is not there" for job in self.feeder.told if job not in states]
        return wrong + self.feeder.wrong + self._wrong_marks(states) + self._orphans()

    def _circumstances(self, connection: psycopg.Connection[tuple[object, ...]], job: int) -> str:
        """Where the job was, its states, and the faults of its last minute; seconds are counted from its end."""
        (row,) = connection.execute(_WHEREABOUTS, [job]).fetchall()
        ended, nodes, notes = float(str(row[0])), row[1], row[2]
        near = [
            f"{fault.kind} {fault.node} {fault.began - ended:+.1f}..{fault.healed - ended:+.1f}"
            for fault in self.faults
            if ended - 60 < fault.healed and fault.began < ended
        ]
        return f"nodes {nodes}; {notes}; faults {near}"

    def _wrong_marks(self, states: dict[int, str]) -> list[str]:
        """A job that is Terminated began and ended once; no other began twice."""
        marks = (self.sandbox.directory / "work" / "marks").read_text().splitlines()
        times = Counter(marks)
        wrong = []
        for job, state in states.items():
            begun, done = times[f"begin {job}"], times[f"end {job}"]
            if (begun, done) != (1, 1) if state == "Terminated" else begun > 1:
                wrong.append(f"job {job} is {state}, began {begun} times and ended {done} times")
        return wrong

    def _orphans(self) -> list[str]:
        left = [pid for node in self.farm.nodes for pid in node.processes() if b"OAR_JOB_ID=" in environment_of(pid)]
        return [f"process {pid} of a job is left" for pid in left]


_ERRORS = """
    SELECT j.job_id, extract(epoch FROM j.ended_at)::float8,
        (SELECT array_agg(DISTINCT r.network_address) FROM assigned_resources a JOIN resources r USING (resource_id)
            WHERE a.job_id = j.job_id)
    FROM jobs j WHERE j.state = 'Error'
"""
_WHEREABOUTS = """
    SELECT extract(epoch FROM j.ended_at)::text,
        (SELECT string_agg(DISTINCT r.network_address, ' ')
            FROM assigned_resources a JOIN resources r USING (resource_id) WHERE a.job_id = j.job_id),
        (SELECT string_agg(concat(l.state, ' ', round(extract(epoch FROM lower(l.during) - j.ended_at), 1)), ', '
            ORDER BY l.during) FROM job_state_logs l WHERE l.job_id = j.job_id)
    FROM jobs j WHERE j.job_id = %s
"""
_LONGEST_LAUNCH = """
    SELECT coalesce(max(extract(epoch FROM upper(during) - lower(during))), 0)::float8
    FROM job_state_logs WHERE state = 'Launching'
"""
_EXPECTED = ("jobs that did not end well", "jobs that were launched more or less than once", "jobs that never ran")
_MORE = {
    "idempotent jobs that a fault ended and nobody submitted again": """
        SELECT job_id, message FROM jobs j WHERE state = 'Error' AND 'idempotent' = ANY (types)
            AND NOT EXISTS (SELECT FROM event_logs e WHERE e.job_id = j.job_id
                AND e.type IN ('WORKING_DIRECTORY', 'OUTPUT_FILES', 'SUPERVISOR',  -- a dead file system
                    'START_UNKNOWN'))  -- one that may still run where it was sent: see below
            AND NOT EXISTS (SELECT FROM jobs r WHERE r.resubmit_of = j.job_id)""",
    "other jobs that were submitted again": """
        SELECT r.job_id FROM jobs r JOIN jobs j ON r.resubmit_of = j.job_id WHERE NOT 'idempotent' = ANY (j.types)
            OR EXISTS (SELECT FROM event_logs e WHERE e.job_id = j.job_id AND e.type = 'START_UNKNOWN')""",
    "jobs that were submitted again twice": """
        SELECT resubmit_of FROM jobs WHERE resubmit_of IS NOT NULL GROUP BY 1 HAVING count(*) > 1""",
}


def _signal(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def run_campaign(
    directory: Path,
    seed: int,
    jobs: int,
    count: int,
    cut: float,
    longest: float,
    evidence: Path | None = None,
    batch: int = BATCH,
) -> tuple[Campaign, list[str]]:
    """Run one campaign in ``directory``; return it with its faults, and what is wrong.

    When something is, what may tell why is left in ``evidence``.
    """
    with run_nodes(NODES, directory / "farm") as farm:
        settings: Settings = {
            "nodes": {
                "user": "root",
                "key_file": str(farm.key_file),
                "known_hosts": str(farm.known_hosts),
                "state_directory": str(directory / "farm" / "nodes"),
                "lost_timeout": LOST_TIMEOUT,
                "connect_timeout": 3.0,
                "start_patience": 20.0,
                "kill_patience": 5.0,
            },
            "jobs": {"resubmission_limit": 100, "kill_grace": 1.0},
            "modules": {"restart_delay_limit": 1.0},
        }
        sandbox = Sandbox(directory / "cluster", settings)
        campaign = Campaign(
            sandbox, farm, seed, jobs, count, cut, Feeder(sandbox, random.Random(f"jobs {seed}"), longest), batch
        )
        well = False
        try:
            wrong = campaign.run()
            well = not wrong
            print(campaign.table())
            print(campaign.outcomes())
            print(f"no job was Launching for longer than {campaign.longest_launch():.1f} s")
            return campaign, wrong
        finally:
            if evidence is not None and not well:
                campaign.keep_evidence(evidence)
            campaign.sandbox.stop()
            embedded_server.remove(campaign.sandbox.directory / "postgresql")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign and print what happened; exit status 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000, help="live at any time while faults strike")
    parser.add_argument("--faults", type=int, default=330)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cut", type=float, default=30.0, help="seconds without network")
    parser.add_argument("--longest", type=float, default=6.0, help="seconds that the longest job sleeps")
    parser.add_argument("--batch", type=int, default=BATCH, help="jobs started together on a node at the end")
    parser.add_argument("--evidence", type=Path, help="folder for logs and tables when something is wrong")
    options = parser.parse_args(arguments)
    isolate("tests.campaigns.fault_campaign", sys.argv[1:] if arguments is None else arguments)
    began = time.monotonic()
    with passable_folder("oarpy-faults-") as directory:
        campaign, wrong = run_campaign(
            directory,
            options.seed,
            options.jobs,
            options.faults,
            options.cut,
            options.longest,
            options.evidence and options.evidence.absolute(),
            options.batch,
        )
    print(f"{len(campaign.faults)} faults in {time.monotonic() - began:.0f} s, seed {options.seed}")
    print("\n".join(f"WRONG: {line}" for line in wrong) or "nothing lost, nothing run twice, nothing left behind")
    return 1 if wrong else 0


if __name__ == "__main__":
    bare_environment.enter()
    sys.exit(main())
