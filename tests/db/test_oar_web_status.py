"""Debian's own Monika and DrawGantt-SVG, as they are, show what ``oarstat`` and ``oarnodes`` show."""

from __future__ import annotations

import json
import re
import time
from html import unescape
from pathlib import Path

import pytest

from tests.harness import oar_web_status
from tests.harness.oar_web_status import WebStatus
from tests.harness.oarsub_cluster import Connection, Submitter, run_pass

WHY_NOT = oar_web_status.missing()
pytestmark = [pytest.mark.db, pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)]

ROLE = "web_status_of_tests"
HOUR = 3600


@pytest.fixture
def web(dsn: str, connection: Connection, oarsub: Submitter, tmp_path: Path) -> WebStatus:
    """Two jobs that run on two nodes, one that waits with a prediction, one held, a reservation, an array, the rest."""
    connection.execute("UPDATE resources SET cpuset = core % 4 WHERE type = 'default'")
    connection.execute("UPDATE resources SET state = 'Suspected' WHERE network_address = 'n4'")
    oarsub.job_id("-n", "first", "-l", "/nodes=1,walltime=2:0:0", "date")
    oarsub.job_id("-n", "second", "-t", "besteffort", "-l", "/nodes=1/core=2,walltime=1:0:0", "date")
    run_pass(connection)
    oarsub.job_id("-n", "next", "-l", "/nodes=2,walltime=1:0:0", "-l", "/nodes=3,walltime=1:0:0", "date")
    oarsub.job_id("--hold", "-l", "/core=1", "date")
    oarsub.job_ids("--array", "3", "-l", "/nodes=2,walltime=0:10:0", "date")
    ended = oarsub.job_id("-n", "gone", "-l", "/core=1,walltime=0:10:0", "date")
    assert oarsub(str(ended), command="oardel").status == 0
    run_pass(connection)
    assert oarsub("db", "analyst", ROLE, "--compat", command="oarpy").status == 0
    return WebStatus(dsn, ROLE, tmp_path)


def cells(page: str) -> list[list[str]]:
    """The texts of the cells of each row of all tables."""
    found = (re.findall(r"<td[^>]*>(.*?)</td>", row, re.S) for row in re.split(r"<tr[^>]*>", page))
    return [[unescape(re.sub(r"<[^>]+>", "", cell)).strip() for cell in row] for row in found]


def test_monika_lists_the_jobs_of_oarstat(web: WebStatus, oarsub: Submitter) -> None:
    shown = {row[0]: row for row in cells(web.monika()) if len(row) == 13 and row[0].isdigit()}
    jobs = json.loads(oarsub("-J", command="oarstat").out)
    listed = {str(key): (job["owner"], job["state"], job["queue"], job["name"] or "") for key, job in jobs.items()}
    assert {job: tuple(row[1:5]) for job, row in shown.items()} == listed
    assert {job["state"] for job in jobs.values()} == {"Running", "Waiting", "Hold"}
    predicted = {str(key): job["scheduledStart"] for key, job in jobs.items() if job["state"] == "Waiting"}
    assert any(predicted.values())
    for job, start in predicted.items():
        text = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(start)) if start else "no prediction"
        assert shown[job][12] == text


def test_monika_shows_the_nodes_of_oarnodes(web: WebStatus, connection: Connection, oarsub: Submitter) -> None:
    page = web.monika()
    nodes = json.loads(oarsub("-J", command="oarnodes").out)
    assert nodes
    for node in {one["network_address"] for one in nodes.values() if one["network_address"]}:
        (table,) = re.findall(rf">{node}</a>.*?<table(.*?)</table>\s*</td>", page, re.S)
        words = re.findall(r"<b>(.*?)</b>", table)
        assert words, node
        (state,) = {one["state"] for one in nodes.values() if one["network_address"] == node}
        held = connection.execute(
            "SELECT DISTINCT job_id::text FROM assigned_resources JOIN resources USING (resource_id)"
            " WHERE upper_inf(during) AND network_address = %s",
            [node],
        ).fetchall()
        jobs = {job for (job,) in held}
        expected = {"Alive": jobs | {"Free"}, "Dead": {"Down"}}.get(state, {state})
        assert jobs <= {re.sub("<.*?>", "", word) for word in words} <= expected, (node, words)


def test_monika_shows_a_job_without_what_was_typed(web: WebStatus, connection: Connection) -> None:
    connection.execute("UPDATE jobs SET command = 'echo sesame' WHERE job_id = 1")
    page = web.monika(job="1")
    assert "first" in page
    assert "Running" in page
    assert "sesame" not in page


def test_drawgantt_draws_what_runs_and_what_is_predicted(
    web: WebStatus, connection: Connection, oarsub: Submitter
) -> None:
    now = time.time()
    page = web.drawgantt(now - HOUR, now + 6 * HOUR)
    drawn = dict(re.findall(r"Jobid: (\d+)\|User: [^|]*\|Kind: PASSIVE\|.*?State: (\w+)", page))
    jobs = json.loads(oarsub("-J", command="oarstat").out)
    expected = {
        str(key): job["state"] for key, job in jobs.items() if job["state"] == "Running" or job["scheduledStart"]
    }
    assert drawn == expected
    held = connection.execute(
        "SELECT job_id::text, count(*)::text FROM assigned_resources WHERE upper_inf(during) GROUP BY 1"
    ).fetchall()
    sizes = dict(re.findall(r"Jobid: (\d+)\|.*?Resources: (\d+)", page))
    assert {job: sizes[job] for job, _ in held} == dict(held)
    for state, pattern in (("Absent", "absent"), ("Suspected", "suspected"), ("Dead", "dead")):
        assert f"url(#{pattern}Pattern)" in page.partition("</defs>")[2], state
