"""A submission like past ones that used far less is followed by a line that proposes a smaller request."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarpy.client.analytics import better_request
from oarpy.model.request import parse_request
from oarpy.modules.accounting import account
from oarpy.scheduler.forecast.fitting_requests import FEWEST_JOBS, MARGIN, PastUse, asked_cores, fitting
from oarpy.store import accounting
from oarpy.store.analytics import job_kinds
from tests.harness.hand_written import one
from tests.harness.oarsub_cluster import Connection, Submitter, run_pass

ASKED = ("-l", "/nodes=1/core=4,walltime=4:0:0", "./sim --steps 10")
GIGABYTE = 2**30


def ended(
    connection: Connection, jobs: list[int], seconds: float, *, cpu: float | None = None, status: int = 0
) -> None:
    """Let these jobs have run so long, and count them."""
    with connection.transaction():
        connection.execute("SET LOCAL session_replication_role = replica")
        connection.execute(
            "UPDATE jobs SET state = 'Terminated', started_at = now() - make_interval(secs => %s), ended_at = now(),"
            " cpu_seconds = %s, exit_status = %s, left_nothing = true, walltime = '4 hours', moldable_id ="
            " (SELECT moldable_id FROM moldable_descriptions m WHERE m.submission_id = jobs.submission_id)"
            " WHERE job_id = ANY(%s)",
            [seconds, cpu, status, jobs],
        )
    account(connection, 86_400)


def busy(connection: Connection, oarsub: Submitter) -> None:
    """Two of three nodes run for three hours, then a job has all three: the third is free for as long."""
    oarsub.job_id("-l", "/nodes=2,walltime=3:0:0", "first")
    run_pass(connection)
    oarsub.job_id("-l", "/nodes=3,walltime=3:0:0", "second")
    run_pass(connection)


@pytest.mark.db
def test_a_smaller_request_is_proposed_once_with_its_earlier_start(connection: Connection, oarsub: Submitter) -> None:
    ended(connection, oarsub.job_ids("--array", "10", *ASKED), 690)
    busy(connection, oarsub)
    told = oarsub(*ASKED)
    assert told.status == 0
    assert re.fullmatch(r"(?:\[.*\n)*OAR_JOB_ID=\d+\n", told.out)
    assert re.fullmatch(
        r"hint: 10 past jobs like this used at most 0:11:30 of 4:00:00; "
        r"with walltime=0:15:00 this one would start at [-\d: ]+ instead of [-\d: ]+\n",
        told.err,
    ), told
    assert oarsub(*ASKED).err == ""  # not again for an hour


@pytest.mark.db
def test_it_can_be_switched_off(connection: Connection, oarsub: Submitter, monkeypatch: pytest.MonkeyPatch) -> None:
    ended(connection, oarsub.job_ids("--array", "10", *ASKED), 690)
    busy(connection, oarsub)
    assert oarsub("--no-hint", *ASKED).err == ""
    assert oarsub("-J", *ASKED).err == ""
    with monkeypatch.context() as patch:
        patch.setenv("OARPY_SUBMISSION_HINTS", "false")
        assert oarsub(*ASKED).err == ""
        assert one(connection, "SELECT kind FROM submissions ORDER BY submission_id DESC LIMIT 1") is None
    assert oarsub(*ASKED).err.startswith("hint: ")


@pytest.mark.db
@pytest.mark.parametrize(
    "other",
    [
        ("-l", "/nodes=1/core=4,walltime=4:0:0", "./sim --steps 99"),
        ("-l", "/nodes=1/core=3,walltime=4:0:0", "./sim --steps 10"),
        ("-l", "/nodes=1/core=4,walltime=0:20:0", "./sim --steps 10"),
        ("-n", "long", *ASKED),
        ("--hold", *ASKED),
    ],
)
def test_jobs_unlike_them_are_left_alone(connection: Connection, oarsub: Submitter, other: tuple[str, ...]) -> None:
    ended(connection, oarsub.job_ids("--array", "10", *ASKED), 690)
    busy(connection, oarsub)
    assert oarsub(*other).err == ""


@pytest.mark.db
def test_failures_count_by_what_they_used_alone(connection: Connection, oarsub: Submitter) -> None:
    ended(connection, oarsub.job_ids("--array", "10", *ASKED), 5, status=256)
    busy(connection, oarsub)
    assert oarsub(*ASKED).err == ""
    ended(connection, oarsub.job_ids("--no-hint", "--array", "10", *ASKED), 690)
    ended(connection, oarsub.job_ids("--no-hint", *ASKED), 14_000, status=256)
    assert oarsub(*ASKED).err == ""
    assert one(connection, "SELECT (jobs, run_seconds)::text FROM job_kinds") == "(10,14000)"
    with connection.transaction():
        accounting.forget(connection)
    assert one(connection, "SELECT count(*) FROM job_kinds") == 0
    account(connection, 86_400)
    assert one(connection, "SELECT (jobs, run_seconds)::text FROM job_kinds") == "(10,14000)"
    assert job_kinds.prune(connection, datetime(2500, 1, 1, tzinfo=UTC)) == 1


@pytest.mark.db
def test_nothing_is_proposed_for_a_job_that_starts_now_or_when_looking_fails(
    connection: Connection, oarsub: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended(connection, oarsub.job_ids("--array", "10", *ASKED), 690)
    assert oarsub(*ASKED).err == ""
    connection.execute("UPDATE job_kinds SET considered_at = NULL")
    busy(connection, oarsub)

    def fails(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(better_request, "_starts", fails)
    told = oarsub(*ASKED)
    assert (told.status, told.err) == (0, "")


USES = st.builds(
    PastUse,
    st.just(FEWEST_JOBS),
    st.floats(0, 1e6),
    st.none() | st.floats(0, 128),
    st.none() | st.integers(0, 2**45),
)


@given(st.integers(1, 128), st.integers(1, 2_000_000), st.integers(1, 2**46), USES)
def test_a_proposal_keeps_the_margin(cores: int, walltime: int, memory: int, use: PastUse) -> None:
    asked = parse_request(f"/nodes=1/core={cores},memory={memory},walltime={walltime // 3600}:{walltime // 60 % 60}:59")
    found = fitting(asked, use)
    if found is None:
        return
    assert found.walltime is not None
    assert asked.walltime is not None
    ways = [(found.walltime, asked.walltime, use.seconds)]
    ways.append((asked_cores(found.groups) or 0, cores, use.busy_cores or 0))
    ways.append((found.consumes[0].amount, memory, use.memory or 0))
    for proposed, before, measured in ways:
        assert proposed == before or measured * MARGIN <= proposed <= before / 2
    if found.groups != asked.groups:  # all that the processors did, one after the other, still fits in
        assert found.walltime >= use.seconds + use.seconds * (use.busy_cores or 0) / (asked_cores(found.groups) or 1)


def test_serial_jobs_are_proposed_fewer_cores_and_the_time_that_takes() -> None:
    use = PastUse(10, 600, 1.0, GIGABYTE)
    found = fitting(parse_request("/host=1/core=8,memory=16G,walltime=2:0:0"), use)
    assert (str(found), found and found.walltime) == ("/host=1/core=2,memory=1280M", 1200)
    assert fitting(parse_request("/host=2/core=8,walltime=0:20:0"), use) is None
    assert fitting(parse_request("/core=8,walltime=2:0:0"), PastUse(9, 600, 1.0)) is None
