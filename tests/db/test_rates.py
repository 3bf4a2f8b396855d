"""Rates of programs: measured by jobs, kept, aged, of their user alone; and ``oarrates``."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import psycopg
import pytest

from oarpy.configuration import load
from oarpy.modules.canceller import Canceller
from oarpy.store.passes import mapped_jobs
from tests.harness.oarsub_cluster import Connection, Submitter, decide, let_run, run_pass
from tests.harness.programs import Programs, make_programs
from tests.harness.waiting import until, waiting_for_locks

pytestmark = pytest.mark.db


@pytest.fixture
def programs(connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    connection.execute("ALTER TABLE resources ADD kind text")
    connection.execute("INSERT INTO resource_properties VALUES ('kind', 'text', false)")
    connection.execute(
        "UPDATE resources SET kind = CASE network_address WHEN 'n2' THEN 'fast' ELSE 'slow' END WHERE type = 'default'"
    )
    monkeypatch.setenv("OARPY_SCHEDULER_NODE_TYPE", "kind")
    monkeypatch.chdir(tmp_path)
    return make_programs(tmp_path)


def submitted(oarsub: Submitter, *more: str, program: str = "./program") -> tuple[int, list[int]]:
    """Submit the program; return its job, and those that measure."""
    asked = ("--processes", "4", "--iterations", "600", "--sizes", "a,b", "--rate", "./rate.sh")
    result = oarsub("-J", *asked, *(more or ("-l", "core=2")), program)
    assert result.status == 0, result
    answer = json.loads(result.out)
    return answer["job_id"], answer.get("measuring", [])


def measured(connection: Connection, oarsub: Submitter, job: int, *, slower: float = 1) -> None:
    """Let a job measure, and end."""
    rates = f"a={4 / slower},b={2 / slower}"
    assert oarsub("--tell", str(job), "--rates", rates, command="oarrates").status == 0
    ended(connection, job)


def submitted_and_measured(connection: Connection, oarsub: Submitter) -> int:
    """Submit the program, and let all jobs measure that it needs; return its job."""
    job, measuring = submitted(oarsub)
    run_pass(connection)
    for measurer in measuring:
        measured(connection, oarsub, measurer)
    return job


def ended(connection: Connection, job: int) -> None:
    connection.execute("UPDATE jobs SET state = 'Finishing', final_state = 'Terminated' WHERE job_id = %s", [job])
    over = "UPDATE jobs SET state = 'Terminated', left_nothing = true, ended_at = now() WHERE job_id = %s"
    connection.execute(over, [job])


def verdict(connection: Connection, job: int) -> str:
    ((found,),) = connection.execute("SELECT verdict FROM gantt_predictions WHERE job_id = %s", [job]).fetchall()
    return str(found)


def plan_of(connection: Connection, job: int) -> tuple[object, object]:
    """The types of nodes of a job, and its walltime in seconds."""
    query = "SELECT node_types, walltime FROM mapped_jobs WHERE job_id = %s"
    ((types, walltime),) = connection.execute(query, [job]).fetchall()
    return types, walltime


def test_rates_are_measured_once_for_each_type_and_kept(
    connection: Connection, oarsub: Submitter, programs: Programs
) -> None:
    job, measuring = submitted(oarsub)
    asked = connection.execute(
        "SELECT node_type, command FROM rate_measurements JOIN jobs USING (job_id)"
        " WHERE properties = format('(kind IN (''%s'')) AND (drain = ''NO'')', node_type) ORDER BY 1"
    ).fetchall()
    script = f"oarrates --measure {programs.folder}/rate.sh a,b"
    assert asked == [("fast", script), ("slow", script)]
    # another job of the same program waits for the same
    assert submitted(oarsub)[1] == measuring
    run_pass(connection)
    assert verdict(connection, job) == "dependency"
    for one, slower in zip(measuring, (1, 4), strict=True):
        measured(connection, oarsub, one, slower=slower)
    assert submitted(oarsub)[1] == []
    decide(connection)
    # two stages of 300 s, and a margin of 10 %
    assert plan_of(connection, job) == ({"fast": 2}, 660)
    started = "SELECT extract(epoch FROM walltime)::int, message FROM jobs WHERE job_id = %s"
    assert connection.execute(started, [job]).fetchall() == [(660, "R=2,W=0:11:0,J=B")]
    connection.execute("UPDATE application_rates SET measured_at = now() - interval '31 days'")
    let_run(connection)
    assert len(submitted(oarsub)[1]) == 2


def test_a_changed_program_is_measured_anew_and_rates_are_of_one_user(
    connection: Connection, oarsub: Submitter, programs: Programs
) -> None:
    submitted_and_measured(connection, oarsub)
    programs.change()
    assert len(submitted(oarsub)[1]) == 2
    assert len(submitted(oarsub, program="./program x")[1]) == 2
    connection.execute("UPDATE application_rates SET user_name = 'somebody'")
    assert json.loads(oarsub("-J", command="oarrates").out) == []
    assert len(json.loads(oarsub("-J", "--all", command="oarrates").out)) == 4
    assert oarsub("--forget-all", command="oarrates").status == 4
    assert oarsub("--forget-all", "-u", "somebody", command="oarrates").out == "4 rates are forgotten.\n"


def test_rates_that_a_job_is_placed_by_are_not_forgotten_before_it_is_over(
    connection: Connection, oarsub: Submitter, programs: Programs
) -> None:
    submitted_and_measured(connection, oarsub)
    job, _ = submitted(oarsub)
    refused = oarsub("--forget-all", command="oarrates")
    assert (refused.status, "that no waiting or running job needs" in refused.err) == (4, True)
    connection.execute("UPDATE mapped_jobs SET live = false")
    assert oarsub("--forget-all", command="oarrates").out == "4 rates are forgotten.\n", job


def test_what_was_killed_half_way_is_measured_anew_and_nothing_is_held(
    connection: Connection, oarsub: Submitter, programs: Programs
) -> None:
    own, measuring = submitted(oarsub, "-l", "core=2,walltime=0:20:0")
    without, again = submitted(oarsub)
    assert again == measuring
    run_pass(connection)
    for one in measuring:
        ended(connection, one)
    decide(connection)
    states = connection.execute("SELECT job_id, state, message FROM jobs WHERE job_id = ANY(%s)", [[own, without]])
    found = {job: (state, message) for job, state, message in states}
    assert found[own][0] == "toLaunch"
    assert found[without][0] == "toError"
    assert "no type of nodes has rates" in found[without][1]
    told = connection.execute("SELECT job_id, type FROM event_logs WHERE type = 'NOT_MAPPED' ORDER BY 1").fetchall()
    assert told == [(own, "NOT_MAPPED"), (without, "NOT_MAPPED")]
    assert connection.execute("SELECT count(*) FROM application_rates").fetchall() == [(0,)]
    assert len(submitted(oarsub)[1]) == 2


def test_where_one_group_names_a_type_the_others_may_have_any(
    connection: Connection, oarsub: Submitter, programs: Programs
) -> None:
    connection.execute("DELETE FROM admission_rules WHERE name NOT LIKE '%queue%'")
    submitted(oarsub, "-l", "{kind='fast'}/core=1+/core=1")
    measured_types = connection.execute("SELECT node_type FROM rate_measurements ORDER BY 1").fetchall()
    assert measured_types == [("fast",), ("slow",)]


def test_a_type_without_a_rate_is_not_used_and_why_says_so(
    connection: Connection, oarsub: Submitter, programs: Programs
) -> None:
    job, (fast, slow) = submitted(oarsub, "-l", "core=8")
    run_pass(connection)
    assert oarsub("--tell", str(fast), "--failed", "rate.sh a 1 prints nan", command="oarrates").status == 1
    ended(connection, fast)
    measured(connection, oarsub, slow)
    decide(connection)
    assert plan_of(connection, job)[0] == {"slow": 8}
    told = oarsub("--why", str(job), command="oarstat").out
    assert f"type fast are not used: they have no rate, as job {fast} tells: rate.sh a 1 prints nan." in told


@pytest.mark.parametrize("rate", ["0", "-1", "NaN", "Infinity", "-Infinity", "1e300", None])
def test_the_database_refuses_what_is_no_rate(connection: Connection, rate: str | None) -> None:
    with pytest.raises(psycopg.errors.IntegrityError), connection.transaction():
        connection.execute(
            "INSERT INTO application_rates (user_name, program, program_size, program_date, arguments, size_name,"
            " node_type, rate) VALUES ('ann', '/p', 1, 1, '', 'a', 'fast', %s::float8)",
            [rate],
        )


def test_a_job_that_is_submitted_again_is_mapped_like_the_first_one(
    connection: Connection, oarsub: Submitter, programs: Programs
) -> None:
    job = submitted_and_measured(connection, oarsub)
    assert oarsub(str(job), command="oardel").status == 0
    connection.execute("UPDATE jobs SET state = 'Error', ended_at = now() WHERE job_id = %s", [job])
    assert oarsub("--resubmit", str(job)).status == 0
    ((new,),) = connection.execute("SELECT max(job_id) FROM jobs").fetchall()
    assert new > job
    run_pass(connection)
    types, walltime = plan_of(connection, new)
    assert types
    assert walltime


def test_rates_that_change_map_waiting_jobs_anew_and_tiny_ones_stop_no_pass(
    connection: Connection, oarsub: Submitter, programs: Programs
) -> None:
    job = submitted_and_measured(connection, oarsub)
    connection.execute("UPDATE jobs SET state = 'Hold' WHERE job_id = %s", [job])
    oarsub.job_ids("-l", "nodes=ALL,walltime=1:0:0", "date")
    run_pass(connection)
    connection.execute("UPDATE jobs SET state = 'Waiting' WHERE job_id = %s", [job])
    run_pass(connection)
    types, walltime = plan_of(connection, job)
    assert types
    connection.execute("UPDATE application_rates SET rate = rate / 2")
    assert plan_of(connection, job) == (None, None)
    run_pass(connection)
    assert plan_of(connection, job)[1] == 2 * int(str(walltime))
    connection.execute("UPDATE application_rates SET rate = 1e-300")
    run_pass(connection)
    assert plan_of(connection, job)[1] == 10 * 366 * 86400


def test_passes_see_a_change_of_a_transaction_that_is_older_than_the_last(
    connection: Connection, oarsub: Submitter, programs: Programs, dsn: str
) -> None:
    first, second = submitted(oarsub)[0], submitted(oarsub)[0]
    change = "UPDATE mapped_jobs SET cores = cores + 1 WHERE job_id = %s"
    with psycopg.connect(dsn) as older:
        older.execute(change, [first])
        connection.execute(change, [second])
        before = mapped_jobs.version(connection)
    assert mapped_jobs.version(connection) != before


def test_jobs_measure_until_the_last_job_that_waits_for_them_is_deleted(
    connection: Connection, oarsub: Submitter, programs: Programs
) -> None:
    first, measuring = submitted(oarsub)
    second, again = submitted(oarsub)
    assert again == measuring
    deleted(connection, oarsub, first)
    assert not connection.execute("SELECT job_id FROM kill_requests WHERE job_id = ANY(%s)", [measuring]).fetchall()
    run_pass(connection)
    deleted(connection, oarsub, second)
    asked = connection.execute(
        "SELECT job_id, reason FROM kill_requests WHERE job_id = ANY(%s) ORDER BY 1", [measuring]
    )
    assert asked.fetchall() == [(job, "nobody waits for its rates") for job in measuring]
    assert not set(submitted(oarsub)[1]) & set(measuring)


def test_jobs_measure_on_for_a_submission_that_is_under_way(
    connection: Connection, oarsub: Submitter, programs: Programs, dsn: str
) -> None:
    first, measuring = submitted(oarsub)
    assert oarsub(str(first), command="oardel").status == 0
    with (
        ThreadPoolExecutor(2) as pool,
        psycopg.connect(dsn, autocommit=True) as watcher,
        psycopg.connect(dsn) as holder,
    ):
        holder.execute("LOCK TABLE job_dependencies IN SHARE MODE")
        second = pool.submit(submitted, oarsub)
        until(lambda: waiting_for_locks(watcher) == 1, "the submission counts on the jobs")
        canceller = pool.submit(Canceller(load()).run_once, connection, datetime.now().astimezone())
        until(lambda: canceller.done() or waiting_for_locks(watcher) == 2, "the canceller is done or waits")
        holder.rollback()
        canceller.result(60)
        assert second.result(60)[1] == measuring
    assert not connection.execute("SELECT FROM kill_requests WHERE job_id = ANY(%s)", [measuring]).fetchall()


def deleted(connection: Connection, oarsub: Submitter, job: int) -> None:
    """Delete a job, and let the canceller see it."""
    assert oarsub(str(job), command="oardel").status == 0
    Canceller(load()).run_once(connection, datetime.now().astimezone())
