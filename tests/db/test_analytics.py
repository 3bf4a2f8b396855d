"""Days of jobs, reports and exports tell what the jobs tell; two runs of an export write once."""

from __future__ import annotations

import csv
import json
import re
import xml.etree.ElementTree as ElementTree
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from oarpy.modules.accounting import account, file_away
from oarpy.store.analytics import recount
from tests.harness.hand_written import rewrite
from tests.harness.past_jobs import MONTH, NOW
from tests.harness.sample_cluster import Connection, Shell, add_job, add_nodes

pytestmark = pytest.mark.db

GUIDE = Path(__file__).resolve().parents[2] / "docs/guides/analyst.md"
QUERIES = re.findall(r"^```sql\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.M | re.S)
CONSOLE = re.findall(r"^\$ oarpy (.*)$", GUIDE.read_text(encoding="utf-8"), re.M)
MARCH = datetime(2026, 3, 10, 12, tzinfo=UTC)
MAY = datetime(2026, 5, 10, 12, tzinfo=UTC)
DAY = date(2026, 3, 10)
HOUR = timedelta(hours=1)


@pytest.fixture
def jobs(connection: Connection) -> list[int]:
    """Of March and May; one that failed, one killed for others, one that never started. All are accounted."""
    cores = add_nodes(connection, "n1", "n2")
    rewrite(connection, "UPDATE resource_state_logs SET during = tstzrange('2026-03-09 00:00+00', NULL)")
    waited: dict[str, Any] = {"submitted_at": MARCH - HOUR}
    made = [
        add_job(connection, "Terminated", user="ann", resources=cores, started=MARCH, seconds=3600, **waited),
        add_job(
            connection, "Terminated", user="ann", resources=cores[:1], started=MARCH, seconds=5, status=256, **waited
        ),
        add_job(
            connection, "Error", user="bob", queue_name="besteffort", resources=cores[:2], started=MARCH, seconds=1800
        ),
        add_job(connection, "Terminated", user="ann", resources=cores[2:], started=MAY, seconds=60),
    ]
    rewrite(connection, "UPDATE jobs SET submitted_at = started_at WHERE queue_name = 'besteffort'")
    connection.execute(
        "INSERT INTO kill_requests (job_id, reason, state) VALUES (%s, 'BESTEFFORT_KILL', 'done')", [made[2]]
    )
    assert account(connection, 86400) == len(made)
    return made


def days(connection: Connection) -> list[tuple[Any, ...]]:
    return connection.execute("SELECT * FROM job_days ORDER BY day, user_name").fetchall()


def test_days_count_jobs_waits_and_waste(connection: Connection, jobs: list[int]) -> None:
    found = connection.execute(
        "SELECT * FROM oar_report.daily_jobs WHERE day = %s ORDER BY user_name", [DAY]
    ).fetchall()
    slowdowns = 2 + (3600 + 5) / 10
    assert found == [
        (DAY, "ann", "default", "default", 2, 1, 2, 7200.0, 3600.0, 3600.0, slowdowns, slowdowns / 2),
        (DAY, "bob", "default", "besteffort", 1, 1, 1, 0.0, 0.0, 0.0, 1.0, 1.0),
    ]
    waste = connection.execute("SELECT day, user_name, jobs, wasted_hours FROM oar_report.besteffort_waste").fetchall()
    assert waste == [(DAY, "bob", 1, 1.0)]


def test_a_job_that_never_started_has_no_wait_and_no_slowdown(connection: Connection, jobs: list[int]) -> None:
    lost = add_job(connection, "Waiting", user="ann")
    connection.execute("UPDATE jobs SET state = 'Error', ended_at = now() WHERE job_id = %s", [lost])
    assert account(connection, 86400) == 1
    counted = connection.execute(
        "SELECT jobs, failed_jobs, started_jobs, wait_seconds, bounded_slowdowns FROM oar_report.daily_jobs"
        " ORDER BY day DESC LIMIT 1"
    ).fetchone()
    assert counted == (1, 1, 0, 0.0, 0.0)
    assert recount.day_differences(connection) == []


def test_days_are_the_same_when_all_is_counted_again(connection: Connection, shell: Shell, jobs: list[int]) -> None:
    before = days(connection)
    file_away(connection, NOW, MONTH)
    assert days(connection) == before
    assert shell.done("oaraccounting", "--reinitialize") == f"{len(jobs)} jobs accounted\n"
    assert days(connection) == before


def test_utilisation_is_of_what_was_alive(connection: Connection, jobs: list[int]) -> None:
    found = connection.execute(
        "SELECT * FROM oar_report.utilisation WHERE day IN (%s, '2026-03-11') ORDER BY day", [DAY]
    )
    used = 4 + 5 / 3600 + 1
    first, second = found.fetchall()
    assert first == (DAY, 96.0, pytest.approx(used), pytest.approx(1), pytest.approx(used / 96))
    assert second[1:] == (96.0, 0.0, 0.0, 0.0)


def test_failures_name_cause_and_nodes(connection: Connection, jobs: list[int]) -> None:
    file_away(connection, NOW, MONTH)
    found = connection.execute(
        "SELECT job_id, cause, network_address FROM oar_report.failures ORDER BY 1, 3"
    ).fetchall()
    assert found == [(jobs[1], "exit status", "n1"), (jobs[2], "BESTEFFORT_KILL", "n1")]


def test_a_report_as_page_and_files(connection: Connection, shell: Shell, jobs: list[int], tmp_path: Path) -> None:
    file_away(connection, NOW, MONTH)
    page, folder = tmp_path / "march.html", tmp_path / "march"
    assert shell.done("oarpy", "report", "2026-03", "--to", str(page), "--csv", str(folder)) == f"{page}\n{folder}\n"
    text = page.read_text()
    body = ElementTree.fromstring(text[text.index("<body>") : text.index("</html>")])
    plots = {svg.attrib["aria-label"]: len(svg.findall("rect")) for svg in body.iter("svg")}
    assert plots["Jobs that ended, by day"] == 23  # from the first day of the resources on
    texts = {svg.attrib["aria-label"]: [text.text for text in svg.iter("text")] for svg in body.iter("svg")}
    # little of the capacity was used, and the axis goes up to all of it
    assert texts["Part of the capacity that was used, %, by day"][:6] == ["0", "20", "40", "60", "80", "100"]
    assert texts["Jobs that ended, by day"][:3] == ["0", "1", "2"]
    assert {"9 Mar", "12 Mar", "30 Mar"} <= set(texts["Mean wait, hours, by day"])
    cells = [cell.text or "" for cell in body.iter("td")]
    assert [cell for cell in cells if cell.endswith(" %")]
    assert [cell for cell in cells if re.fullmatch(r"\d+:\d\d:\d\d", cell)]  # waits
    assert [head.text for head in body.iter("h2")][:2] == ["Days", "Users"]
    headings = {head.text for head in body.iter("th")}
    assert {"User", "Project", "Queue", "Node", "Failed jobs", "Mean bounded slowdown"} <= headings
    assert [head for head in headings if head is None or "name" in head or "_" in head] == []
    with (folder / "users.csv").open() as file:
        users = {row["user_name"]: row for row in csv.DictReader(file)}
    assert float(users["ann"]["used_hours"]) == pytest.approx(4 + 5 / 3600)
    assert (users["ann"]["jobs"], users["bob"]["failed_jobs"]) == ("2", "1")
    found = json.loads(shell.done("oarpy", "report", "2026-03-10, 2026-03-11", "-J"))
    assert [row["day"] for row in found["days"]] == ["2026-03-10"]
    assert found["causes_of_failures"] == [{"cause": "BESTEFFORT_KILL", "jobs": 1}, {"cause": "exit status", "jobs": 1}]
    assert found["nodes_of_failures"] == [{"network_address": "n1", "jobs": 2}]
    assert len(json.loads(shell.done("oarpy", "report", "-1d, +1d", "-J"))["days"]) in (2, 3)
    assert len(json.loads(shell.done("oarpy", "report", "today", "-J"))["days"]) == 1
    assert [len(json.loads(shell.done("oarpy", "report", age, "-J"))["days"]) for age in ("7d", "-7d")] == [8, 8]
    assert "'lastweek' is not a date (write " in shell("oarpy", "report", "lastweek").err
    refused = shell("oarpy", "report", "2026-03")
    assert (refused.status, "nothing to write (--to FILE.html, --csv DIR, or -J)" in refused.err) == (2, True)


def test_an_export_is_read_as_it_is_and_written_once(
    connection: Connection, shell: Shell, jobs: list[int], tmp_path: Path
) -> None:
    duckdb = pytest.importorskip("duckdb", reason="pip install 'oarpy-scheduler[dev]'")
    dataset = pytest.importorskip("pyarrow.dataset", reason="pip install 'oarpy-scheduler[parquet]'")
    run = ("oarpy", "export", str(tmp_path))
    first = shell.done(*run)
    assert first.endswith("6 files written, 0 kept\n")
    files = f"read_parquet('{tmp_path}/jobs/*/*.parquet')"
    query = f"SELECT month, job_id, core_hours, epoch(ended_at) FROM {files} ORDER BY 2"  # noqa: S608
    rows = duckdb.sql(query).fetchall()
    assert [(row[0], row[1]) for row in rows] == list(zip(["2026-03"] * 3 + ["2026-05"], jobs, strict=True))
    assert rows[0][2:] == (2.0, (MARCH + HOUR).timestamp())
    table = dataset.dataset(tmp_path / "accounting", partitioning="hive").to_table()
    assert sum(table["used_hours"].to_pylist()) == pytest.approx(4 + 5 / 3600 + 1 + 2 / 60)
    file_away(connection, NOW, MONTH)
    assert shell.done(*run) == "0 files written, 6 kept\n"
    add_job(connection, "Terminated", resources=[1], started=MAY, seconds=60)
    account(connection, 86400)
    again = json.loads(shell.done(*run, "-J"))
    assert (sorted(again["written"]), again["kept"]) == (
        [f"{name}/month=2026-05/part-0.parquet" for name in ("accounting", "daily_jobs", "jobs")],
        3,
    )
    # what is gone from the database stays
    shell.done("oarpy", "history", "drop", "2026-03", "--yes")
    assert shell.done(*run) == "0 files written, 5 kept\n"
    assert len(duckdb.sql(query).fetchall()) == 5
    (tmp_path / "jobs/month=2026-05/part-0.parquet").write_bytes(b"cut off")
    assert shell.done(*run).startswith("jobs/month=2026-05/part-0.parquet\n1 files written")


def test_queries_of_the_guide_run(shell: Shell, jobs: list[int]) -> None:
    assert len(QUERIES) >= 8
    for query in QUERIES:
        assert isinstance(json.loads(shell.done("oarpy", "db", "query", query, "-J")), list)


def test_commands_of_the_guide_run(
    shell: Shell, jobs: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow", reason="pip install 'oarpy-scheduler[parquet]'")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.txt").write_text("open\n")
    ran = []
    for line in CONSOLE:
        words = [f"{word}_of_the_guide" if word in ("ann", "oar_ro") else word for word in line.split()]
        shell.done("oarpy", *words)
        ran.append(words[0])
    assert {"db", "report", "export"} == set(ran)
    assert (tmp_path / "march.html").exists()
    assert (tmp_path / "exported/jobs/month=2026-03/part-0.parquet").exists()
