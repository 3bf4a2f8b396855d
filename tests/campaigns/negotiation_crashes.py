"""Applications and batch jobs share a cluster while every kind of process is killed; then the books are checked.

``python -m tests.campaigns.negotiation_crashes`` runs 100 applications beside 100 batch jobs and kills each kind of
process 5 times with SIGKILL: the server and its modules, workers of the gateway, agents, launchers, the database and
its sessions. Launchers attach again and must know what the rows say. A smaller round is a test.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from oarpy.local_cluster.sandbox import Sandbox, Settings, command
from oarpy.model.errors import OarpyError
from research.benchmarks.server_processes import children_of
from tests.campaigns.books import QUESTIONS, wrong_books
from tests.campaigns.crash_campaign import DEADLINE, JOB, NODES, Campaign
from tests.campaigns.negotiating_application import Application
from tests.harness import bare_environment
from tests.harness.launcher_lines import LauncherLines, over_socket, through_command
from tests.harness.server_processes import DATABASE, SERVER_KINDS, SESSION

WORKER, LAUNCHER = "gateway worker", "application's launcher"
TARGETS = (*SERVER_KINDS, WORKER, "agent", LAUNCHER, DATABASE, SESSION)
_SETTINGS: Settings = {
    "nodes": {"lost_timeout": 60.0},
    "negotiation": {"cluster": "site", "fair_start": 1.0, "timer": 0.2, "patience": 120.0},
}
_SHOWN = "SELECT job_id, serial, view FROM applications WHERE state IN ('Submitted', 'RequestSent', 'Waiting')"
_LEFT = {
    "applications that are not over": "SELECT job_id, state FROM applications WHERE state <> 'Finished'",
    "hosts still kept back": "SELECT job_id FROM ghosts",
    "extensions that are not over": "SELECT * FROM extensions WHERE state NOT IN ('Over', 'Withdrawn')",
    "resizes that are not done": "SELECT * FROM resizes WHERE done_at IS NULL",
    "applications that were done and did not end well": """
        SELECT job_id, j.state, message FROM applications a JOIN jobs j USING (job_id)
        WHERE a.ended = 'done' AND j.state <> 'Terminated'""",
    "applications that had hosts and ended without being done": """
        SELECT job_id, ended FROM applications JOIN jobs USING (job_id) WHERE attempt > 0 AND ended <> 'done'""",
    "batch jobs that did not end well": """
        SELECT job_id, state, message FROM jobs j WHERE (state <> 'Terminated' OR exit_status <> 0)
            AND NOT EXISTS (SELECT FROM applications a WHERE a.job_id = j.job_id)""",
    "jobs that were launched twice": "SELECT job_id, attempt FROM jobs WHERE attempt > 1",
}
_MARKED = """
    SELECT job_id FROM jobs j LEFT JOIN applications a USING (job_id)
    WHERE a.job_id IS NULL OR attempt > 0 AND j.command LIKE '%effects%'
"""
_BOOKS = (
    "jobs that entered a state more than once",
    "resources held twice",
    "resources still held",
    "resources not Alive",
)
_ACCOUNTS = """
    WITH counted AS (SELECT coalesce(sum(consumption), 0) AS used FROM accounting WHERE consumption_type = 'USED'),
    real AS (SELECT count(*) AS rows, coalesce(sum(extract(epoch FROM least(upper(part), j.ended_at)
            - greatest(lower(part), j.started_at))), 0) AS used
        FROM assigned_resources a JOIN jobs j USING (job_id), unnest(a.during) AS part
        WHERE lower(part) < j.ended_at AND upper(part) > j.started_at)
    SELECT counted.used, real.used, real.rows FROM counted, real WHERE abs(counted.used - real.used) > real.rows * 2
"""


@dataclass(slots=True)
class NegotiationCampaign(Campaign):
    """A round with ``applications`` beside the batch jobs. ``targets`` are what is killed."""

    applications: int = 100
    targets: tuple[str, ...] = TARGETS
    compared: int = 0
    """How often what a launcher knew was held against the rows."""
    threads: list[Application] = field(default_factory=list)
    unknown: int = 0
    """Applications whose launcher never heard that they were made."""

    def run(self) -> list[str]:
        """Run the round; return what is wrong at the end."""
        chance = random.Random(self.seed)
        self._set_up()
        mark = f"OARPY_JOB={self._instance()}/".encode()
        began = time.monotonic()
        plan = [target for target in self.targets for _ in range(self.kills)]
        chance.shuffle(plan)
        left, unborn = self.jobs, self.applications
        wrong: list[str] = []
        for number, target in enumerate(plan):
            left -= self._submit(chance, -(-left // (len(plan) - number)))
            unborn -= self._begin(chance, -(-unborn // (len(plan) - number)))
            self._wait_for_talk(chance)
            self._strike(target, chance, mark)
            time.sleep(chance.uniform(0.1, 0.9))
            wrong += self._compare()
        began = self._note("kills", began)
        self._revive()
        wrong += self._compare_once(chance)
        wrong += self._join()
        self._end_unknown()
        self._wait_for_ends()
        wrong += self._wait_for_rest()
        self._note("last jobs", began)
        return [*wrong, *self._all_books(), *self._processes(mark, "a job")]

    def _set_up(self) -> None:
        self.sandbox.create()
        self.sandbox.start()
        pattern = f"/host=n[1-{NODES}]/cpu={{1}}/core={{2}}"
        self.sandbox.run("oaradmin", "resources", "add", pattern, "--transport", "local")
        self.sandbox.run("oarproperty", "-a", "site", "-c")
        with psycopg.connect(self.sandbox.dsn(), autocommit=True) as connection:
            connection.execute("UPDATE resources SET site = CASE WHEN host <= 'n3' THEN 'red' ELSE 'blue' END")

    # Applications

    def _begin(self, chance: random.Random, count: int, *, by_process: bool = False) -> int:
        """Begin applications: every second has a command, every third speaks through a process."""
        words = (command("oarnegotiate"),)
        path, work = str(self.sandbox.directory / "gateway" / "socket"), str(self.sandbox.directory / "work")
        for number in range(len(self.threads), len(self.threads) + count):
            arguments = (f"sh -c '{JOB}' {chance.uniform(0.1, 2):.2f}",) if number % 2 else ()
            if by_process or number % 3 == 0:
                connect: Callable[[], LauncherLines] = lambda: through_command(words, self.sandbox.environment(), work)  # noqa: E731
            else:
                connect = lambda: over_socket(path, work)  # noqa: E731
            self.threads.append(Application(connect, random.Random(chance.random()), arguments, NODES // 2))
            self.threads[-1].start()
        return count

    def _wait_for_talk(self, chance: random.Random) -> None:
        """Wait, within reason, until an application has had a view and is not over: the kill strikes a conversation."""
        until = time.monotonic() + DEADLINE / 4
        while not any(one.is_alive() and not one.reason and one.seen()[0] for one in self.threads):
            self._revive()
            if time.monotonic() > until:
                raise OarpyError("no application was shown anything")
            if not any(one.is_alive() for one in self.threads):
                self._begin(chance, 1)
            time.sleep(0.02)

    def _pids(self, target: str) -> list[int]:
        if target == WORKER:
            return children_of(*Campaign._pids(self, "gateway"))
        if target != LAUNCHER:
            return Campaign._pids(self, target)
        processes = [one.lines.process for one in self.threads if one.is_alive() and one.lines is not None]
        found = [process.pid for process in processes if process is not None and process.poll() is None]
        if not found and not any(process is not None for process in processes):
            self._begin(random.Random(len(self.threads)), 1, by_process=True)
        return found

    def _compare(self) -> list[str]:
        """Hold what launchers know against the rows, where both speak of the same view."""
        try:
            with psycopg.connect(self.sandbox.dsn(), autocommit=True) as connection:
                rows = {job: rest for job, *rest in connection.execute(_SHOWN)}
        except (psycopg.OperationalError, OarpyError):
            return []
        wrong = []
        for one in self.threads:
            serial, view = one.seen()
            if one.job in rows and serial and rows[one.job][0] == serial:
                self.compared += 1
                if view != {name: profile for name, (_, profile) in rows[one.job][1].items()}:
                    wrong.append(f"view {serial} of job {one.job} is {rows[one.job][1]}, its launcher knows {view}")
        return wrong

    def _compare_once(self, chance: random.Random) -> list[str]:
        """Go on until something was compared: a short round may have looked only while no application waited."""
        wrong: list[str] = []
        until = time.monotonic() + DEADLINE
        while not self.compared:
            if time.monotonic() > until:
                raise OarpyError("no launcher spoke of the view that the rows speak of")
            if not any(one.is_alive() for one in self.threads):
                self._begin(chance, 1)
            wrong += self._compare()
            time.sleep(0.02)
        return wrong

    def _join(self) -> list[str]:
        """Wait for the applications; say which of them were told something wrong, or nothing."""
        until = time.monotonic() + DEADLINE
        for one in self.threads:
            one.join(max(0, until - time.monotonic()))
            one.given_up = True
        wrong = [f"job {one.job}: {line}" for one in self.threads for line in one.wrong]
        return wrong + [f"job {one.job} was told {one.reason!r}" for one in self.threads if one.reason != "done"]

    def _end_unknown(self) -> None:
        """Delete applications that were made while who asked for them was cut off."""
        known = {one.job for one in self.threads}
        with psycopg.connect(self.sandbox.dsn(), autocommit=True) as connection:
            made = {job for (job,) in connection.execute("SELECT job_id FROM applications WHERE state <> 'Finished'")}
        self.unknown = len(made - known)
        for job in sorted(made - known):
            self._until_done("oardel", str(job))

    def _wait_for_rest(self) -> list[str]:
        """Wait until nothing is kept back, and say what is."""
        until = time.monotonic() + DEADLINE / 4
        while True:
            with psycopg.connect(self.sandbox.dsn(), autocommit=True) as connection:
                left = {
                    what: rows[:5] for what, query in _LEFT.items() if (rows := connection.execute(query).fetchall())
                }
            if not left or time.monotonic() > until:
                return [f"{what}: {rows}" for what, rows in left.items()]
            time.sleep(0.1)

    # What came of it

    def _all_books(self) -> list[str]:
        with psycopg.connect(self.sandbox.dsn(), autocommit=True) as connection:
            wrong = wrong_books(connection, [question for question in QUESTIONS if question in _BOOKS])
            wrong += [f"accounting (used, real, rows): {row}" for row in connection.execute(_ACCOUNTS)]
            marks = {str(job) for (job,) in connection.execute(_MARKED)}
        checked = self.sandbox.run("oarpy", "db", "check", check=False)
        if checked.returncode:
            wrong.append(f"oarpy db check: {checked.stdout}{checked.stderr}")
        return wrong + self._wrong_marks(marks)

    def _wrong_marks(self, jobs: set[str]) -> list[str]:
        work = self.sandbox.directory / "work"
        effects = Counter((work / "effects").read_text().split())
        return [f"job {job} left {effects[job]} marks" for job in sorted(jobs | {*effects}) if effects[job] != 1]


def run_round(
    directory: Path, seed: int, *, applications: int, jobs: int, kills: int, targets: tuple[str, ...] = TARGETS
) -> tuple[NegotiationCampaign, list[str]]:
    """Run one round in ``directory``; return the campaign with its counts, and what is wrong."""
    sandbox = Sandbox(directory, _SETTINGS)
    campaign = NegotiationCampaign(sandbox, seed, jobs, kills, applications=applications, targets=targets)
    try:
        return campaign, campaign.run()
    finally:
        for one in campaign.threads:
            one.given_up = True
        sandbox.discard()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign and print what happened; exit status 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--applications", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=100, help="batch jobs")
    parser.add_argument("--kills", type=int, default=5, help="of each target")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="oarpy-negotiate-") as folder:
        campaign, wrong = run_round(
            Path(folder), options.seed, applications=options.applications, jobs=options.jobs, kills=options.kills
        )
    print(f"seed {options.seed}, {time.monotonic() - began:.0f} s: killed {told(campaign)}")
    print("\n".join(f"  WRONG: {line}" for line in wrong) or "  nothing lost, doubled or left held; books in order")
    return 1 if wrong else 0


def told(campaign: NegotiationCampaign) -> str:
    """Say in a few words what was done."""
    strikes = ", ".join(f"{target} {campaign.killed[target]}" for target in campaign.targets)
    attached, asked = sum(one.attached for one in campaign.threads), sum(one.requests for one in campaign.threads)
    granted, released = sum(one.granted for one in campaign.threads), sum(one.released for one in campaign.threads)
    return (
        f"{strikes}\n  {campaign.amid} of these kills struck while jobs ran; {len(campaign.threads)} applications asked"
        f" {asked} times, grew {granted} times, shrank {released} times and attached again {attached} times;"
        f" {campaign.compared} times what a launcher knew was"
        f" compared; {campaign.unknown} applications were made that no launcher heard of"
    )


if __name__ == "__main__":
    bare_environment.enter()
    sys.exit(main())
