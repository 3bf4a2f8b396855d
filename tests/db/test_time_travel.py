"""What ``--at`` tells of an instant is what was told at that instant; why others went first is what was decided."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta

import pytest

from oarpy.modules.accounting import file_away
from oarpy.store.passes import verdict_history
from tests.harness.hand_written import rewrite
from tests.harness.oarsub_cluster import Connection, Submitter, decide, let_run, run_pass
from tests.harness.past_jobs import MARCH, MONTH, NOW, ended
from tests.harness.sample_cluster import Shell, add_nodes

pytestmark = [pytest.mark.db, pytest.mark.kept]


def instant(connection: Connection) -> str:
    """Return the time of the database as the commands read it."""
    row = connection.execute("SELECT extract(epoch FROM clock_timestamp())").fetchone()
    assert row is not None
    return str(datetime.fromtimestamp(float(row[0]), UTC).isoformat())


def listed(oarsub: Submitter, *arguments: str) -> list[list[str]]:
    """Return what a listing tells of each job, without durations, which go on, and messages, which change."""
    out = oarsub("--format", "csv", *arguments, command="oarstat").out
    return [line.split(",")[:6] for line in out.splitlines()]


def nodes(oarsub: Submitter, *arguments: str) -> dict[str, str]:
    """Return the state of each resource."""
    found = json.loads(oarsub("-J", *arguments, command="oarnodes").out)
    return {number: one["state"] for number, one in found.items()}


def test_each_instant_is_told_as_it_was(connection: Connection, oarsub: Submitter) -> None:
    chance = random.Random(1)
    told = []
    mine: list[int] = []
    for _ in range(12):
        mine.append(oarsub.job_id("-l", f"/nodes={chance.randint(1, 3)},walltime=1:0:0", "date"))
        decide(connection)
        let_run(connection)
        fate, victim = chance.random(), chance.choice(mine)
        if fate < 0.4:
            oarsub(str(victim), command="oarhold")
        elif fate < 0.8:
            end(connection, victim)
        else:
            connection.execute(
                "UPDATE resources SET state = %s WHERE resource_id = 1", [chance.choice(["Absent", "Alive"])]
            )
        told.append((instant(connection), listed(oarsub), oarsub("-s", command="oarstat").out, nodes(oarsub)))
    for at, jobs, states, resources in told:
        assert listed(oarsub, "--at", at) == jobs
        assert oarsub("-s", "--at", at, command="oarstat").out == states
        assert nodes(oarsub, "--at", at) == resources


def test_a_date_to_come_is_refused(connection: Connection, oarsub: Submitter) -> None:
    job = oarsub.job_id("-l", "/nodes=1,walltime=1:0:0", "date")
    for words in (("oarstat",), ("oarstat", "--why", str(job)), ("oarstat", "--gantt", "-1h, +1h"), ("oarnodes",)):
        refused = oarsub(*words[1:], "--at", "+1h", command=words[0])
        assert (refused.status, "is to come, and --at shows what was" in refused.err) == (2, True), words


def test_a_message_does_not_tell_what_came_later(connection: Connection, oarsub: Submitter) -> None:
    job = oarsub.job_id("-l", "/nodes=1,walltime=1:0:0", "date")
    decide(connection)
    let_run(connection)
    then = instant(connection)
    connection.execute(
        "UPDATE jobs SET message = message || '; killed: its walltime was over' WHERE job_id = %s", [job]
    )
    end(connection, job)
    assert "killed" in oarsub("-j", str(job), command="oarstat").out
    assert oarsub("--at", then, command="oarstat").out.splitlines()[-1].split()[-1] == "R=4,W=1:0:0,J=B"


def end(connection: Connection, job: int) -> None:
    """End a job that runs."""
    connection.execute(
        "UPDATE jobs SET state = 'Finishing', final_state = 'Terminated' WHERE job_id = %s AND state = 'Running'", [job]
    )
    connection.execute(
        "UPDATE jobs SET state = 'Terminated', ended_at = clock_timestamp(), exit_status = 0, left_nothing = true"
        " WHERE job_id = %s AND state = 'Finishing'",
        [job],
    )


def test_months_that_are_filed_away_are_told(connection: Connection, shell: Shell) -> None:
    add_nodes(connection, "n1")
    job = ended(connection, MARCH)
    # the log is written by the clock, the job came in March
    early = (
        "UPDATE job_state_logs SET during = tstzrange(%s, upper(during)) WHERE job_id = %s AND previous_state IS NULL"
    )
    rewrite(connection, early, MARCH - timedelta(days=1), job)
    rewrite(connection, "UPDATE jobs SET submitted_at = %s WHERE job_id = %s", MARCH - timedelta(days=1), job)
    before = (MARCH - timedelta(seconds=1)).isoformat()
    live = shell.done("oarstat", "-s", "--at", before)
    assert live.startswith(f"{job}: ")
    assert file_away(connection, NOW, MONTH)
    assert shell.done("oarstat", "-s", "--at", before) == live


def test_why_a_job_waited_then(connection: Connection, oarsub: Submitter) -> None:
    oarsub.job_id("-l", "/nodes=3,walltime=1:0:0", "date")
    run_pass(connection)
    waiting = oarsub.job_id("-l", "/nodes=3,walltime=1:0:0", "date")
    run_pass(connection)
    at, told = instant(connection), oarsub("-J", str(waiting), command="oarstat").out
    oarsub(str(waiting), command="oarhold")
    run_pass(connection)
    found = json.loads(oarsub("--why", str(waiting), "--at", at, "-J", command="oarstat").out)
    now = json.loads(told)[str(waiting)]
    assert (found["state"], found["verdict"], found["reason"]) == (now["state"], now["verdict"], now["reason"])
    later = json.loads(oarsub("--why", str(waiting), "--at", instant(connection), "-J", command="oarstat").out)
    assert (later["state"], later["verdict"]) == ("Hold", "held")
    assert "was Waiting" in oarsub("--why", str(waiting), "--at", at, command="oarstat").out


def because(oarsub: Submitter, job: int, other: int) -> str:
    """Return why ``other`` went before ``job``."""
    assert oarsub("--why", str(job), "--before", str(other), command="oarstat").status == 0
    word: str = json.loads(oarsub("--why", str(job), "--before", str(other), "-J", command="oarstat").out)["because"]
    return word


def test_why_another_job_went_before(connection: Connection, oarsub: Submitter) -> None:
    first = oarsub.job_id("-l", "/nodes=2,walltime=1:0:0", "date")
    decide(connection)
    let_run(connection)
    large = oarsub.job_id("-l", "/nodes=3,walltime=1:0:0", "date")
    decide(connection)
    small = oarsub.job_id("-l", "/nodes=1,walltime=0:10:0", "date")
    decide(connection)
    assert because(oarsub, large, small) == "backfilled"
    assert because(oarsub, large, first) == "submitted_later"
    assert because(oarsub, first, small) == "it_did_not"
    assert because(oarsub, small, large) == "it_did_not"


def test_order_queue_and_hold_are_told(connection: Connection, oarsub: Submitter) -> None:
    oarsub("--add", "urgent,90,fifo", command="oarqueue")
    running = oarsub.job_id("-l", "/nodes=3,walltime=1:0:0", "date")
    decide(connection)
    let_run(connection)
    held = oarsub.job_id("-l", "/nodes=3,walltime=1:0:0", "date")
    oarsub(str(held), command="oarhold")
    early, late = (oarsub.job_id("-l", "/nodes=3,walltime=1:0:0", "date") for _ in range(2))
    urgent = oarsub.job_id("-q", "urgent", "-l", "/nodes=3,walltime=1:0:0", "date")
    decide(connection)
    for expected in (urgent, early):
        end(connection, running)
        decide(connection)
        let_run(connection)
        running = expected
    assert because(oarsub, early, urgent) == "queue_priority"
    assert because(oarsub, late, early) == "order"
    assert because(oarsub, held, early) == "held"


def kept(connection: Connection) -> list[tuple[int, str]]:
    """Return the verdicts that are kept, in their order."""
    return connection.execute("SELECT job_id, verdict FROM verdict_changes ORDER BY at, job_id").fetchall()


def test_verdicts_are_kept_when_they_change_and_go_with_time(connection: Connection, oarsub: Submitter) -> None:
    running = oarsub.job_id("-l", "/nodes=3,walltime=1:0:0", "date")
    waiting = oarsub.job_id("-l", "/nodes=3,walltime=1:0:0", "date")
    for _ in range(3):
        run_pass(connection)
    expected = [(running, "starts"), (waiting, "behind_higher_priority"), (waiting, "resources_busy")]
    assert sorted(kept(connection)) == expected
    assert verdict_history.prune(connection, datetime.now(UTC) - timedelta(days=1)) == 0
    assert verdict_history.prune(connection, datetime.now(UTC) + timedelta(days=1)) == 3


@pytest.mark.parametrize(
    "words",
    [("--before", "1"), ("--why", "1", "--at", "now", "--before", "2"), ("-f", "--at", "now"), ("--at", "soon")],
)
def test_what_does_not_go_together_is_refused(connection: Connection, shell: Shell, words: tuple[str, ...]) -> None:
    assert shell("oarstat", *words).status == 2
