"""A GPU goes to one job that asks for GPUs at a time: in passes, in the database, and in what jobs see of them."""

from __future__ import annotations

import psycopg
import pytest

from oarpy.configuration import load
from oarpy.modules.launcher.specifications import own_gpus, specification
from oarpy.store import accounting
from oarpy.store.analytics import recount
from oarpy.store.jobs.execution import launches
from tests.harness.oarsub_cluster import Connection, Submitter, decide, let_run, run_pass

pytestmark = pytest.mark.db


@pytest.fixture(autouse=True)
def _gpus(oarsub: Submitter, connection: Connection) -> None:
    """Give n2 two GPUs of two cores each, and n3 one of four."""
    connection.execute("ALTER TABLE resources ADD gpudevice integer")
    connection.execute("INSERT INTO resource_properties VALUES ('gpudevice', 'integer', false)")
    connection.execute("UPDATE resources SET gpu = 'a' || cpu % 2, gpudevice = cpu % 2 WHERE network_address = 'n2'")
    connection.execute("UPDATE resources SET gpu = 'b', gpudevice = 0 WHERE network_address = 'n3'")


def gpus_of(connection: Connection, *jobs: int) -> list[set[str | None]]:
    """Return the GPUs of the resources that each job holds."""
    found = []
    for job in jobs:
        rows = connection.execute(
            "SELECT r.gpu FROM assigned_resources a JOIN resources r USING (resource_id)"
            " WHERE a.job_id = %s AND upper_inf(a.during)",
            [job],
        ).fetchall()
        found.append({gpu for (gpu,) in rows})
    return found


def held(connection: Connection) -> set[tuple[int, str, bool]]:
    """Return who holds which GPU, and whether it has given it back for a while."""
    return set(connection.execute("SELECT job_id, block, suspended FROM held_blocks WHERE property = 'gpu'").fetchall())


def devices(connection: Connection, job: int, node: str) -> tuple[int, ...] | None:
    """Return what a job that is launched sees of the GPUs of a node; None when nothing is said."""
    (launch,) = launches(connection, [job], "toLaunch")
    return own_gpus(launch, node)


def end(connection: Connection, job: int) -> None:
    connection.execute(
        "UPDATE jobs SET state = 'Terminated', ended_at = now(), left_nothing = true WHERE job_id = %s", [job]
    )


def test_each_job_gets_a_gpu_of_its_own_and_the_fourth_waits(connection: Connection, oarsub: Submitter) -> None:
    jobs = [oarsub.job_id("-l", "/gpu=1/core=1,walltime=1:0:0", "date") for _ in range(4)]
    decide(connection)
    first = gpus_of(connection, *jobs)
    assert sorted(str(gpu) for gpus in first[:3] for gpu in gpus) == ["a0", "a1", "b"]
    assert first[3] == set()
    assert {(job, gpu) for job, gpu, _ in held(connection)} == {
        (job, gpu) for job, gpus in zip(jobs[:3], first, strict=False) for gpu in gpus
    }
    let_run(connection)
    end(connection, jobs[1])
    assert jobs[1] not in {job for job, _, _ in held(connection)}
    decide(connection)
    assert gpus_of(connection, jobs[3]) == [first[1]]
    assert oarsub("-l", "/gpu=4/core=1", "date").status == 3


def test_jobs_without_gpus_get_the_other_cores_and_see_none(connection: Connection, oarsub: Submitter) -> None:
    trains = oarsub.job_id("-p", "network_address = 'n2'", "-l", "/gpu=1/core=1,walltime=1:0:0", "date")
    counts = oarsub.job_id("-p", "network_address = 'n2'", "-l", "/core=3,walltime=1:0:0", "date")
    decide(connection)
    (mine,), (others,) = gpus_of(connection, trains), gpus_of(connection, counts)
    assert mine < others
    assert devices(connection, trains, "n2") == ((0,) if mine == {"a0"} else (1,))
    assert devices(connection, counts, "n2") == ()


def test_no_client_of_the_database_books_a_gpu_twice(connection: Connection, oarsub: Submitter) -> None:
    one, other = (oarsub.job_id("-l", "/gpu=1/core=1,walltime=1:0:0", "date") for _ in range(2))
    decide(connection)
    (gpu,) = gpus_of(connection, one)[0]
    with pytest.raises(psycopg.errors.ExclusionViolation, match="one_holder_of_a_block"):
        connection.execute(
            "INSERT INTO assigned_resources (job_id, resource_id, during)"
            " SELECT %s, resource_id, tstzmultirange(tstzrange(now(), NULL)) FROM resources r WHERE gpu = %s"
            " AND NOT EXISTS (SELECT FROM assigned_resources a WHERE a.resource_id = r.resource_id)",
            [other, gpu],
        )
    with pytest.raises(psycopg.errors.RaiseException, match=f"the gpu of resource .* cannot change: job {one} "):
        connection.execute(
            "UPDATE resources SET gpu = 'z' WHERE resource_id IN"
            " (SELECT resource_id FROM assigned_resources WHERE job_id = %s)",
            [one],
        )


def test_a_suspended_job_lends_its_gpu(connection: Connection, oarsub: Submitter) -> None:
    job = oarsub.job_id("-p", "gpu = 'b'", "-l", "/gpu=1/core=1,walltime=1:0:0", "date")
    run_pass(connection)
    connection.execute("UPDATE jobs SET state = 'Suspended' WHERE job_id = %s", [job])
    connection.execute(
        "UPDATE assigned_resources SET suspended = true, during = held_until(during, clock_timestamp())"
        " WHERE job_id = %s",
        [job],
    )
    assert held(connection) == {(job, "b", True)}
    guest = oarsub.job_id("-p", "gpu = 'b'", "-l", "/gpu=1/core=1,walltime=0:10:0", "date")
    run_pass(connection)
    assert held(connection) == {(job, "b", True), (guest, "b", False)}


def test_jobs_share_gpus_where_the_level_is_not_exclusive(
    connection: Connection, oarsub: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = oarsub.job_id("-p", "gpu = 'b'", "-l", "/gpu=1/core=1,walltime=1:0:0", "date")
    run_pass(connection)
    assert load().scheduler.exclusive_levels == ("gpu",)
    monkeypatch.setenv("OARPY_SCHEDULER_EXCLUSIVE_LEVELS", "")
    beside = oarsub.job_id("-p", "gpu = 'b'", "-l", "/gpu=1/core=1,walltime=1:0:0", "date")
    decide(connection)
    assert gpus_of(connection, beside) == [{"b"}]
    assert held(connection) == set()
    assert devices(connection, beside, "n3") == (0,)
    monkeypatch.delenv("OARPY_SCHEDULER_EXCLUSIVE_LEVELS")
    waits = oarsub.job_id("-p", "gpu = 'b'", "-l", "/gpu=1/core=1,walltime=1:0:0", "date")
    decide(connection)
    assert held(connection) == {(running, "b", False)}
    assert gpus_of(connection, waits) == [set()]


def share_gpus(connection: Connection) -> None:
    """Let each GPU be divided into 100 parts."""
    connection.execute("INSERT INTO consumables (name, level) VALUES ('gpu_share', 'gpu')")
    connection.execute(
        "INSERT INTO consumable_capacities (consumable, block, capacity)"
        " SELECT 'gpu_share', gpu, 100 FROM resources WHERE gpu IS NOT NULL GROUP BY gpu"
    )


def test_jobs_with_shares_have_a_gpu_together_and_nobody_has_it_alone(
    connection: Connection, oarsub: Submitter
) -> None:
    share_gpus(connection)
    on_b = ("-p", "gpu = 'b'", "-l")
    shares = [oarsub.job_id(*on_b, f"/core=1,gpu_share={part},walltime=1:0:0", "date") for part in (50, 25, 50)]
    alone = oarsub.job_id(*on_b, "/gpu=1/core=1,walltime=1:0:0", "date")
    decide(connection)
    assert gpus_of(connection, *shares, alone) == [{"b"}, {"b"}, set(), set()]
    assert {job for job, _, _ in held(connection)} == set(shares[:2])
    assert [devices(connection, job, "n3") for job in shares[:2]] == [(0,), (0,)]
    let_run(connection)
    end(connection, shares[0])
    decide(connection)
    assert gpus_of(connection, shares[2], alone) == [{"b"}, set()]
    let_run(connection)
    for job in shares[1:]:
        end(connection, job)
    late = oarsub.job_id(*on_b, "/gpu=1/core=1,gpu_share=10,walltime=1:0:0", "date")
    decide(connection)
    assert gpus_of(connection, alone, late) == [{"b"}, set()]
    assert oarsub(*on_b, "/core=1,gpu_share=101", "date").status == 3
    assert oarsub(*on_b, "/core=1,gpu_share=0", "date").status == 2


def test_no_client_of_the_database_gives_more_of_a_gpu_or_gives_it_twice(
    connection: Connection, oarsub: Submitter
) -> None:
    share_gpus(connection)
    share = oarsub.job_id("-p", "gpu = 'b'", "-l", "/core=1,gpu_share=60,walltime=1:0:0", "date")
    other = oarsub.job_id("-p", "gpu = 'b'", "-l", "/core=1,gpu_share=60,walltime=1:0:0", "date")
    alone = oarsub.job_id("-p", "gpu = 'b'", "-l", "/gpu=1/core=1,walltime=1:0:0", "date")
    decide(connection)
    assert gpus_of(connection, share, other, alone) == [{"b"}, set(), set()]
    connection.execute(
        "UPDATE jobs j SET moldable_id = m.moldable_id FROM moldable_descriptions m"
        " WHERE m.submission_id = j.submission_id AND j.moldable_id IS NULL"
    )
    book = (
        "INSERT INTO assigned_resources (job_id, resource_id, during)"
        " SELECT %s, resource_id, tstzmultirange(tstzrange(now(), NULL)) FROM resources r WHERE gpu = 'b'"
        " AND NOT EXISTS (SELECT FROM assigned_resources a WHERE a.resource_id = r.resource_id)"
    )
    for job, error in ((alone, psycopg.errors.ExclusionViolation), (other, psycopg.errors.CheckViolation)):
        with pytest.raises(error):
            connection.execute(book, [job])


def test_a_share_is_its_part_of_the_hours_of_a_gpu(connection: Connection, oarsub: Submitter) -> None:
    share_gpus(connection)
    share = oarsub.job_id("-p", "gpu = 'b'", "-l", "/core=1,gpu_share=50,walltime=1:0:0", "date")
    alone = oarsub.job_id("-p", "gpu = 'a0'", "-l", "/gpu=1/core=1,walltime=1:0:0", "date")
    whole = oarsub.job_id("-p", "gpu = 'a1'", "-l", "/gpu=1/core=1,gpu_share=100,walltime=1:0:0", "date")
    run_pass(connection)
    connection.execute("UPDATE jobs SET started_at = now() - interval '1 hour'")
    for job in (share, alone, whole):
        end(connection, job)
    with connection.transaction():
        accounting.account(connection, 86400, 100)
    counted: dict[str, int] = dict(
        connection.execute("SELECT consumption_type, sum(consumption)::int FROM accounting GROUP BY 1").fetchall()
    )
    assert counted["GPU_ASKED"] == (0.5 + 1 + 1) * 3600
    assert counted["gpu_share_ASKED"] == 150 * 3600
    assert counted["ASKED"] == 3 * 3600
    rows = connection.execute("SELECT job_id, gpus, gpu_hours / core_hours FROM oar_report.jobs ORDER BY job_id")
    assert rows.fetchall() == [(share, 1, 0.5), (alone, 1, 1.0), (whole, 1, 1.0)]
    assert recount.differences(connection, 86400) == []
    connection.execute("DELETE FROM consumables")
    assert recount.differences(connection, 86400) == []


def test_a_share_is_told_to_the_job_and_to_mps(connection: Connection, oarsub: Submitter) -> None:
    share_gpus(connection)
    job = oarsub.job_id("-p", "gpu = 'b'", "-l", "/gpu=1/core=1,gpu_share=25,walltime=1:0:0", "date")
    decide(connection)
    (launch,) = launches(connection, [job], "toLaunch")
    told = specification(launch, {}, load().jobs, "n3", confined=False).variables
    assert (told["OAR_AMOUNT_GPU_SHARE"], told["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"]) == ("25", "25")
