"""An analyst does all that SQL allows, without end, while jobs are in flight: nothing is late, and the dump works.

``python -m tests.campaigns.hammering_analyst`` does it for a minute, with 100 jobs at a time in flight. Each session of
the analyst repeats what could hold up a server: locks by number and of tables, long transactions, sleep, notices to
modules, large objects, temporary tables, and queries over everything. Settings that keep analysts in bounds are undone
first. A shorter form is a test.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from oarpy.local_cluster.sandbox import Sandbox, local_nodes
from oarpy.postgres import embedded_server
from tests.harness import bare_environment
from tests.harness.waiting import until

ANALYST = "hammering_analyst"
SLACK = 10.0
"""Seconds from a submission to the end of a job of no length, on a busy machine."""
_PATIENCE = 120.0

_UNBOUNDED = ("SET statement_timeout = 0", "SET default_transaction_read_only = off", "SET lock_timeout = '1s'")
_BLOWS = (
    "SELECT pg_advisory_lock(l.classid::bigint << 32 | l.objid::bigint) FROM pg_locks l WHERE l.locktype = 'advisory'",
    "SELECT pg_try_advisory_lock(hashtext('oarpy past'))",
    "SELECT pg_advisory_lock(478560413305)",
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'oarpy%'",
    "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'oarpy%'",
    "NOTIFY oarpy_events, 'done metascheduler'",
    "NOTIFY oarpy_run_launcher",
    "SELECT pg_notify('oarpy_run_metascheduler', '')",
    "SELECT pg_sleep(30)",
    "SELECT lo_create(0)",
    "SELECT lo_from_bytea(0, 'x')",
    "CREATE TEMPORARY TABLE mine AS SELECT generate_series(1, 100000)",
    "CREATE TABLE public.mine (x integer)",
    "LOCK TABLE public.jobs IN ACCESS EXCLUSIVE MODE",
    "LOCK TABLE public.past_months IN ACCESS SHARE MODE",
    "LOCK TABLE oar_report.jobs IN ACCESS EXCLUSIVE MODE",
    "LOCK TABLE oar_report.jobs IN ROW EXCLUSIVE MODE",
    "SELECT FROM oar_report.jobs FOR UPDATE",
    "UPDATE leads SET lock = 1",
    "DELETE FROM oar_compat.frag_jobs",
    "SET SESSION AUTHORIZATION DEFAULT; SET ROLE oarpy_analyst; DELETE FROM public.jobs",
    "VACUUM FULL pg_catalog.pg_class",
    "REINDEX SYSTEM",
    "SELECT count(*) FROM oar_report.jobs a, oar_report.jobs b",
    "SELECT count(*) FROM oar_compat.jobs a JOIN oar_compat.job_types b USING (job_id)",
)


@dataclass(slots=True)
class Hammer:
    """A session of the analyst; ``done`` counts what was allowed and what was refused."""

    dsn: str
    over: threading.Event
    done: Counter[str] = field(default_factory=Counter)

    def strike(self) -> None:
        """Repeat all blows, each in a transaction that stays open for a moment, until it is over."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            for statement in _UNBOUNDED:
                connection.execute(statement)
            for blow in itertools.cycle(_BLOWS):
                if self.over.is_set():
                    return
                self._blow(connection, blow)

    def _blow(self, connection: psycopg.Connection, blow: str) -> None:
        try:
            with connection.transaction():
                for one in blow.split("; "):
                    connection.execute(one)
                self.over.wait(0.2)
            self.done["allowed"] += 1
            self.done[f"allowed: {blow}"] += 1
        except psycopg.Error:
            self.done["refused"] += 1


@dataclass(slots=True)
class HammeringCampaign:
    """Jobs one after the other on a cluster whose analyst hammers; what took too long is in ``late``."""

    sandbox: Sandbox
    done: Counter[str] = field(default_factory=Counter)
    jobs: int = 0
    slowest: float = 0.0

    def run(self, seconds: float, in_flight: int, sessions: int) -> list[str]:
        """Hammer for so long; return what is wrong."""
        over = threading.Event()
        hammers = [Hammer(self._open_door(), over) for _ in range(sessions)]
        threads = [threading.Thread(target=one.strike, daemon=True) for one in hammers]
        try:
            for thread in threads:
                thread.start()
            ends = time.monotonic() + seconds
            while not self.jobs or time.monotonic() < ends:
                self._round(in_flight)
            dumped = self.sandbox.run("oarpy", "db", "dump", str(self.sandbox.directory / "hammered.dump"), check=False)
            checked = self.sandbox.run("oarpy", "db", "check", "--accounting", check=False)
        finally:
            over.set()
            for thread in threads:
                thread.join(_PATIENCE)
        self.done = sum((one.done for one in hammers), Counter[str]())
        wrong = [
            f"{what}: {done.stdout}{done.stderr}"
            for what, done in (("dump", dumped), ("check", checked))
            if done.returncode
        ]
        return [*wrong, *([f"a job ended {self.slowest:.1f} s after its submission"] if self.slowest > SLACK else [])]

    def _open_door(self) -> str:
        """Make the analyst, let it in, and return where."""
        self.sandbox.run("oarpy", "db", "analyst", ANALYST)
        data = embedded_server.data_directory(self.sandbox.directory / "postgresql")
        assert data is not None
        rules = data / "pg_hba.conf"
        text = rules.read_text(encoding="utf-8")
        if ANALYST not in text:
            rules.write_text(f"local all {ANALYST} trust\n{text}", encoding="utf-8")
        dsn = make_conninfo(self.sandbox.dsn(), user=ANALYST)
        with psycopg.connect(self.sandbox.dsn(), autocommit=True) as connection:
            connection.execute("SELECT pg_reload_conf()")

        def let_in() -> bool:
            try:
                psycopg.connect(dsn).close()
            except psycopg.OperationalError:
                return False
            return True

        until(let_in, "a server that has read its rules")
        return dsn

    def _round(self, in_flight: int) -> None:
        jobs = self.sandbox.job_ids("--array", str(in_flight), "-l", "core=1,walltime=0:10:0", "true")
        self.sandbox.wait_for(jobs, ("Terminated",), _PATIENCE)
        self.jobs += len(jobs)
        with psycopg.connect(self.sandbox.dsn()) as connection:
            row = connection.execute(_SLOWEST, [jobs]).fetchone()
        assert row is not None
        self.slowest = max(self.slowest, float(row[0]))


_SLOWEST = """
    SELECT max(extract(epoch FROM ended_at - submitted_at))::float8 FROM jobs WHERE job_id = ANY(%s)
"""


def run_campaign(directory: Path, seconds: float, in_flight: int, sessions: int) -> tuple[HammeringCampaign, list[str]]:
    """Run the campaign in ``directory``; return it with what it counted, and what is wrong."""
    campaign = HammeringCampaign(Sandbox(directory))
    try:
        campaign.sandbox.create()
        campaign.sandbox.start()
        campaign.sandbox.run(*local_nodes("/host=n[1-4]/core={8}"))
        campaign.sandbox.wait_for_gateway(30)
        return campaign, campaign.run(seconds, in_flight, sessions)
    finally:
        campaign.sandbox.discard()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign and print what happened; exit status 1 if anything was late or broke."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--jobs", type=int, default=100, help="in flight at a time")
    parser.add_argument("--sessions", type=int, default=10, help="of the analyst; no role has more")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="oarpy-hammer-") as folder:
        campaign, wrong = run_campaign(Path(folder), options.seconds, options.jobs, options.sessions)
    print(f"{campaign.jobs} jobs, the slowest ended {campaign.slowest:.1f} s after its submission")
    for what, count in campaign.done.most_common():
        print(f"  {count:6} {what}")
    print("\n".join(f"WRONG: {line}" for line in wrong) or "nothing was late, and the dump works")
    return 1 if wrong else 0


if __name__ == "__main__":
    bare_environment.enter()
    sys.exit(main())
