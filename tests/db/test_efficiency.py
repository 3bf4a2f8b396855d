"""``oarstat --efficiency``: what jobs used of what they held."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarpy.store.analytics import measured_use
from oarpy.store.jobs import execution
from oarpy.store.jobs.execution import End
from oarpy.transport.agent.usage import MeasuredUse
from tests.harness.hand_written import move, rewrite
from tests.harness.sample_cluster import ME, Connection, Shell, add_job, add_nodes

pytestmark = [pytest.mark.db, pytest.mark.kept]


def run_job(connection: Connection, user: str, cpu: float | None, memory: int | None, *, days: int = 0) -> int:
    """A job of ``user`` on one core of its own that ran 100 s, days ago, with what was measured."""
    (core,) = add_nodes(connection, "n", cores=1)
    started = datetime.now(UTC) - timedelta(days=days, seconds=100)
    job = add_job(connection, "Terminated", user=user, resources=[core], started=started, seconds=100.0)
    rewrite(connection, "UPDATE jobs SET cpu_seconds = %s, memory_peak = %s WHERE job_id = %s", cpu, memory, job)
    return job


def test_named_jobs(connection: Connection, shell: Shell) -> None:
    job, unmeasured = run_job(connection, ME, 50.0, 3 << 29), run_job(connection, ME, None, None)
    (found,) = json.loads(shell("oarstat", "--efficiency", str(job), str(unmeasured), "-J").out)
    assert (found["job_id"], found["cpu_efficiency"], found["memory_peak"]) == (job, 0.5, 3 << 29)
    assert " 50 " in (shown := shell("oarstat", "--efficiency", str(job)).out)
    assert "1.5G" in shown
    full = json.loads(shell("oarstat", "-f", "-J", "-j", str(job)).out)
    assert (full[str(job)]["cpu_seconds"], full[str(job)]["memory_peak"]) == (50.0, 3 << 29)


def test_periods_weigh_jobs_by_their_time(connection: Connection, shell: Shell) -> None:
    for cpu in (100.0, 20.0):
        run_job(connection, ME, cpu, None)
    run_job(connection, "ann", 10.0, None)
    run_job(connection, ME, 10.0, None, days=400)
    (mine,) = json.loads(shell("oarstat", "--efficiency", "--by", "day", "-J").out)
    assert (mine["user"], mine["jobs"], mine["cpu_efficiency"]) == (ME, 2, 0.6)
    both = json.loads(shell("oarstat", "--efficiency", "--project", "default", "-J").out)
    assert {row["user"] for row in both} == {ME, "ann"}


def test_other_nodes_add_theirs_if_the_job_holds_them(connection: Connection) -> None:
    add_nodes(connection, "n1", "n2", cores=1)
    job = add_job(connection, user_name=ME)
    move(connection, job, "toLaunch")
    connection.execute(
        "INSERT INTO assigned_resources (job_id, resource_id, during)"
        " SELECT %s, resource_id, tstzmultirange(tstzrange(now(), NULL)) FROM resources",
        [job],
    )
    move(connection, job, "Launching", "Running")
    execution.finish(connection, [End(job, "Terminated", 0, None, 0.0, "", "", 10.0, 100)])
    row = connection.execute("SELECT attempt FROM jobs WHERE job_id = %s", [job]).fetchone()
    node = connection.execute("SELECT max(network_address) FROM resources").fetchone()
    assert row is not None
    assert node is not None
    measured_use.add_usage(connection, [(job, row[0], node[0], 5.0, 300), (job, row[0], "elsewhere", 999.0, 999)])
    measured_use.add_usage(connection, [(job, row[0] + 1, node[0], 999.0, 999)])
    used = connection.execute("SELECT cpu_seconds, memory_peak FROM jobs WHERE job_id = %s", [job]).fetchone()
    assert used == (15.0, 300)


USES = st.lists(st.tuples(st.none() | st.integers(0, 1000).map(float), st.none() | st.integers(0, 1 << 40)))


@given(USES, st.randoms())
def test_use_adds_up_in_any_order(uses: list[tuple[float | None, int | None]], random: object) -> None:
    def together(parts: list[tuple[float | None, int | None]]) -> tuple[float | None, int | None]:
        whole = MeasuredUse()
        for part in parts:
            whole.add(*part)
        return whole.cpu, whole.memory

    shuffled = sorted(uses, key=lambda _: random.random())  # type: ignore[attr-defined]
    assert together(shuffled) == together(uses)
    seen = [cpu for cpu, _ in uses if cpu is not None]
    assert together(uses)[0] == (sum(seen) if seen else None)
