"""``oarsub --dry-run`` says what submitting would lead to, and leaves the database as it was."""

from __future__ import annotations

import json
import time
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.harness.oarsub_cluster import Connection, Submitter, contents, decide, let_run

pytestmark = [pytest.mark.db, pytest.mark.kept]


def rehearse(oarsub: Submitter, *arguments: str, status: int = 0) -> dict[str, Any]:
    result = oarsub("--dry-run", "-J", *arguments)
    assert (result.status, result.err) == (status, ""), result
    return dict(json.loads(result.out))


def local(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def test_a_job_that_starts_at_once(connection: Connection, oarsub: Submitter) -> None:
    before = contents(connection)
    found = rehearse(oarsub, "-l", "/nodes=2/core=2,walltime=0:10:0", "date")
    assert contents(connection) == before
    assert found["admitted"]
    assert not found["refused"]
    assert (found["verdict"], found["chosen"]) == ("starts", 0)
    assert abs(found["start"] - time.time()) < 60
    assert found["end"] - found["start"] == 600
    # n1 is Absent, so the first nodes that can serve are n2 and n3
    assert (found["resources"], found["nodes"]) == (4, ["n2", "n3"])
    assert any(line.startswith("rule ") for line in found["trace"])
    assert found["queue"] == "default"
    assert found["reservation"] is None


def test_the_pass_does_what_was_announced(connection: Connection, oarsub: Submitter) -> None:
    oarsub.job_id("-l", "/nodes=3,walltime=1:0:0", "sleep 3600")
    decide(connection)
    let_run(connection)
    request = ("-l", "/nodes=2,walltime=0:30:0", "-l", "/nodes=3/core=1,walltime=2:0:0", "date")
    announced = rehearse(oarsub, *request)
    job = oarsub.job_id(*request)
    decide(connection)
    row = connection.execute(
        "SELECT verdict, extract(epoch FROM start_time)::float8, m.position FROM gantt_predictions"
        " JOIN moldable_descriptions m USING (moldable_id) WHERE job_id = %s",
        (job,),
    ).fetchone()
    assert row is not None
    assert (announced["verdict"], announced["chosen"]) == (row[0], row[2])
    # both passes looked within the same minute, and the running job ends at one date
    assert abs(announced["start"] - row[1]) < 60
    assert announced["verdict"] == "resources_busy"


def test_every_alternative_is_predicted(connection: Connection, oarsub: Submitter) -> None:
    oarsub.job_id("-l", "/nodes=2,walltime=1:0:0", "sleep 3600")
    decide(connection)
    let_run(connection)
    found = rehearse(oarsub, "-l", "/nodes=3,walltime=0:10:0", "-l", "/nodes=1,walltime=0:30:0", "date")
    late, now = found["alternatives"]
    assert (found["chosen"], found["verdict"]) == (1, "starts")
    assert (late["request"], late["walltime"], late["resources"]) == ("{type = 'default'}/nodes=3", 600, 12)
    assert late["start"] - now["start"] > 3500
    assert now["nodes"] == ["n4"]
    asked = ("-l", "/nodes=3,walltime=0:10:0", "-l", "/nodes=1,walltime=0:30:0", "date")
    what, where, when, why = oarsub("--dry-run", *asked).out.splitlines()
    request = "/nodes=1,walltime=0:30:0"
    assert what == f"What: {request} (alternative 2 of 2) in queue default for project default"
    assert (where, why) == ("Where: 4 resources on n4", "Why: starts now")
    assert when.startswith("When: 20")
    text = oarsub("--dry-run", "-v", *asked).out
    begin = local(datetime.fromtimestamp(late["start"]))[:-5]
    assert text.startswith("# rule ")
    assert f"Alternative 1: /nodes=3,walltime=0:10:0: {begin}" in text
    assert f"Alternative 2 (chosen): {request}: 20" in text


def test_first_and_last_member_of_an_array(connection: Connection, oarsub: Submitter) -> None:
    before = contents(connection)
    found = rehearse(oarsub, "--array", "5", "-l", "/nodes=1,walltime=0:10:0", "date")
    assert contents(connection) == before
    array = found["array"]
    assert (array["size"], array["planned"]) == (5, 5)
    assert array["first"]["verdict"] == "starts"
    assert array["last"]["verdict"] == "behind_higher_priority"
    # three nodes are Alive: members 4 and 5 follow the first three
    assert array["last"]["start"] - array["first"]["start"] >= 600
    out = oarsub("--dry-run", "--array", "5", "-l", "/nodes=1,walltime=0:10:0", "date").out
    assert out.startswith("What: array of 5, each /nodes=1,walltime=0:10:0 in queue default")
    assert "; member 5 starts 20" in out


def test_a_long_array_is_planned_in_part(oarsub: Submitter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oarpy.client.submission.dry_run.MOST_PREDICTED", 4)
    array = rehearse(oarsub, "--array", "50000", "date")["array"]
    assert (array["size"], array["planned"]) == (50000, 4)


def test_a_reservation_is_accepted(connection: Connection, oarsub: Submitter) -> None:
    before = contents(connection)
    date = datetime.now() + timedelta(hours=2)
    found = rehearse(oarsub, "-r", local(date), "-l", "/nodes=4,walltime=0:10:0", "date")
    assert contents(connection) == before
    assert found["verdict"] == "reserved"
    assert found["reservation"] == {"date": int(date.timestamp()), "accepted": True, "next_date": None}


def test_a_reservation_is_refused_with_the_next_date(connection: Connection, oarsub: Submitter) -> None:
    oarsub.job_id("-l", "/nodes=2,walltime=1:0:0", "sleep 3600")
    decide(connection)
    let_run(connection)
    date = datetime.now() + timedelta(minutes=10)
    asked = ("-r", local(date), "-l", "/nodes=4,walltime=0:10:0", "date")
    found = rehearse(oarsub, *asked, status=3)
    assert (found["admitted"], found["refused"], found["verdict"]) == (True, True, "reservation")
    next_date = found["reservation"]["next_date"]
    assert isinstance(next_date, int)
    assert next_date > date.timestamp() + 2000
    result = oarsub("--dry-run", *asked)
    assert (result.status, result.err) == (3, "")
    assert f"reservation refused; next possible date: {local(datetime.fromtimestamp(next_date))[:-3]}" in result.out


def test_dependencies(connection: Connection, oarsub: Submitter) -> None:
    first = oarsub.job_id("-l", "/nodes=1,walltime=1:0:0", "sleep 3600")
    decide(connection)
    let_run(connection)
    found = rehearse(oarsub, "-a", str(first), "-l", "/nodes=1,walltime=0:10:0", "date")
    assert found["verdict"] == "dependency"
    assert found["start"] - time.time() > 3500
    connection.execute("UPDATE jobs SET state = 'Finishing', final_state = 'Error' WHERE job_id = %s", (first,))
    connection.execute(
        "UPDATE jobs SET state = 'Error', left_nothing = true, ended_at = now() WHERE job_id = %s", (first,)
    )
    ended = rehearse(oarsub, "-a", f"notok:{first}", "date")
    assert (ended["verdict"], ended["reason"]) == ("starts", "starts now")
    refused = rehearse(oarsub, "-a", f"ok:{first}", "date")
    assert (refused["verdict"], refused["start"]) == ("dependency", None)


def test_a_rule_refuses(connection: Connection, oarsub: Submitter) -> None:
    connection.execute(
        "INSERT INTO admission_rules (name, priority, rule_text) VALUES ('no', 99, 'refuse(\"not on Sundays\")')"
    )
    before = contents(connection)
    found = rehearse(oarsub, "date", status=3)
    assert contents(connection) == before
    assert (found["admitted"], found["refused"], found["verdict"]) == (False, True, "refused")
    assert "not on Sundays" in found["reason"]
    assert found["trace"][-1] == "  refused: not on Sundays"
    assert "alternatives" not in found


def test_a_request_that_can_never_run_is_refused(oarsub: Submitter) -> None:
    found = rehearse(oarsub, "-l", "/nodes=9", "date", status=3)
    assert "needs 9 nodes" in found["reason"]
    result = oarsub("--dry-run", "-l", "/nodes=9", "date")
    assert (result.status, result.err) == (3, "")
    assert result.out.startswith("Refused: ")


def test_absent_resources(oarsub: Submitter) -> None:
    found = rehearse(oarsub, "-l", "/nodes=4", "date")
    assert (found["admitted"], found["verdict"], found["start"], found["chosen"]) == (
        True,
        "resources_down",
        None,
        None,
    )


def test_held_jobs_and_stopped_queues(oarsub: Submitter) -> None:
    found = rehearse(oarsub, "--hold", "-l", "/nodes=1,walltime=0:10:0", "date")
    assert (found["verdict"], found["start"]) == ("held", None)
    # what it would get once it is resumed
    assert found["alternatives"][0]["nodes"] == ["n2"]


def test_best_effort_jobs_in_the_way(connection: Connection, oarsub: Submitter) -> None:
    victim = oarsub.job_id("-t", "besteffort", "-l", "/nodes=3,walltime=1:0:0", "sleep 3600")
    decide(connection)
    let_run(connection)
    before = contents(connection)
    found = rehearse(oarsub, "-l", "/nodes=1,walltime=0:10:0", "date")
    assert contents(connection) == before
    assert (found["verdict"], found["cancelled"]) == ("resources_busy", [victim])


def test_jobs_of_queues_that_give_way(connection: Connection, oarsub: Submitter) -> None:
    connection.execute("INSERT INTO queues (queue_name, priority, gives_way_to) VALUES ('guests', 9, '{default}')")
    victim = oarsub.job_id("-q", "guests", "-l", "/nodes=3,walltime=1:0:0", "sleep 3600")
    decide(connection)
    let_run(connection)
    found = rehearse(oarsub, "-l", "/nodes=1,walltime=0:10:0", "date")
    assert (found["verdict"], found["cancelled"]) == ("resources_busy", [victim])
    assert found["reason"] == f"jobs on lower levels give way: {victim}"
    equal = rehearse(oarsub, "-q", "guests", "-l", "/nodes=1,walltime=0:10:0", "date")
    assert (equal["verdict"], equal["cancelled"]) == ("resources_busy", [])
    job = oarsub.job_id("-l", "/nodes=1,walltime=0:10:0", "date")
    told = oarsub("--why", str(job), command="oarstat").out
    assert f"jobs on lower levels give way: {victim}" in told


def test_misuse_is_one_line(oarsub: Submitter) -> None:
    for arguments in (("--resubmit", "1"), (), ("-l", "/nodes=x", "date"), ("-p", "nothing = 1", "date")):
        result = oarsub("--dry-run", *arguments)
        assert (result.status, result.out, result.err.count("\n")) == (2, "", 1), result
