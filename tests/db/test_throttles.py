"""``oarsub --array N%M`` and ``oaralter ARRAY --throttle M``: so many members of an array run at once."""

from __future__ import annotations

import json

import pytest

from tests.harness.oarsub_cluster import Connection, Submitter, contents, run_pass

pytestmark = pytest.mark.db
ASKED = ("-l", "/core=1,walltime=1:0:0")


def running(connection: Connection) -> list[int]:
    rows = connection.execute("SELECT job_id FROM jobs WHERE state = 'Running' ORDER BY 1")
    return [job for (job,) in rows]


def test_so_many_members_run_at_once(connection: Connection, oarsub: Submitter) -> None:
    members = oarsub.job_ids(*ASKED, "--array", "5%2", "date")
    single = oarsub.job_id(*ASKED, "date")
    run_pass(connection)
    assert running(connection) == [*members[:2], single]
    why = json.loads(oarsub("--why", str(members[2]), "-J", command="oarstat").out)
    assert why["stored"]["verdict"] == "quota"
    assert why["stored"]["reason"].startswith(f"quota of array {members[0]}: at most 2 jobs, reached until ")
    assert why["quota"]["job_ids"] == members[:2]
    starts = connection.execute(
        "SELECT g.start_time - min(g.start_time) OVER () FROM gantt_predictions g JOIN jobs USING (job_id)"
        " WHERE state = 'Waiting' ORDER BY job_id"
    )
    assert [start.total_seconds() >= 3600 for (start,) in starts] == [False, False, True], "two more, then the last"
    connection.execute("UPDATE jobs SET state = 'Finishing', final_state = 'Terminated' WHERE job_id = %s", members[:1])
    connection.execute(
        "UPDATE jobs SET state = 'Terminated', ended_at = now(), exit_status = 0, left_nothing = true"
        " WHERE job_id = %s",
        members[:1],
    )
    run_pass(connection)
    assert running(connection) == [*members[1:3], single]


def test_a_throttle_is_changed_for_the_whole_array(connection: Connection, oarsub: Submitter) -> None:
    members = oarsub.job_ids(*ASKED, "--array", "5", "--throttle", "1", "date")
    run_pass(connection)
    assert running(connection) == members[:1]
    changed = oarsub(str(members[0]), "--throttle", "3", command="oaralter")
    assert (changed.status, f"[{members[1]}-{members[4]}] throttle 1 -> 3" in changed.out) == (0, True), changed
    run_pass(connection)
    assert running(connection) == members[:3]
    alone = oarsub(str(members[4]), "-n", "last", command="oaralter")
    assert alone.status == 0
    assert connection.execute("SELECT DISTINCT throttle FROM jobs").fetchall() == [(3,)]


def test_an_array_that_had_none_gets_one(connection: Connection, oarsub: Submitter) -> None:
    members = oarsub.job_ids("-l", "/nodes=2,walltime=1:0:0", "--array", "3", "date")
    run_pass(connection)
    assert running(connection) == members[:1]
    assert oarsub(str(members[0]), "--throttle", "1", "-l", "/core=1", command="oaralter").status == 0
    run_pass(connection)
    assert running(connection) == members[:1], "the member that runs counts"


def test_a_dry_run_knows_it(oarsub: Submitter) -> None:
    found = json.loads(oarsub(*ASKED, "--array", "4%1", "--dry-run", "-J", "date").out)
    first, last = found["array"]["first"], found["array"]["last"]
    assert (first["verdict"], last["verdict"]) == ("starts", "quota")
    assert last["start"] >= first["start"] + 3 * 3600


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("oarsub", (*ASKED, "--array", "3%0", "date")),
        ("oarsub", (*ASKED, "--array", "3%", "date")),
        ("oarsub", (*ASKED, "--array", "3%2%1", "date")),
        ("oarsub", (*ASKED, "--array", "3%2", "--throttle", "2", "date")),
        ("oarsub", (*ASKED, "--array", "3", "--throttle", "0", "date")),
        ("oaralter", ("1", "--throttle", "0")),
        ("oaralter", ("1", "--throttle", "many")),
    ],
)
def test_what_is_no_throttle_is_refused(
    connection: Connection, oarsub: Submitter, command: str, words: tuple[str, ...]
) -> None:
    oarsub.job_ids(*ASKED, "--array", "2", "--hold", "date")
    stored = contents(connection)
    refused = oarsub(*words, command=command)
    assert (refused.status, refused.out, refused.err.count("\n")) == (2, "", 1), refused
    assert contents(connection) == stored


def test_a_member_that_comes_again_has_the_present_throttle_of_its_array(
    connection: Connection, oarsub: Submitter
) -> None:
    members = oarsub.job_ids(*ASKED, "--array", "4%1", "date")
    run_pass(connection)
    connection.execute(
        "UPDATE jobs SET state = 'Terminated', ended_at = now(), left_nothing = true WHERE job_id = %s", [members[0]]
    )
    assert oarsub("--array", str(members[0]), "--throttle", "3", command="oaralter").status == 0
    assert oarsub("--resubmit", str(members[0])).status == 0
    live = "SELECT DISTINCT throttle FROM jobs WHERE state = 'Waiting'"
    assert connection.execute(live).fetchall() == [(3,)]
