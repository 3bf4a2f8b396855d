"""A month of the past goes to a file, is dropped, and comes back as it was."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from oarpy.configuration import Configuration, HistorySettings
from oarpy.modules.accounting import Accounting, file_away
from oarpy.modules.loop.module import Outcome
from oarpy.store.schema.checks.check import check
from tests.harness.past_jobs import MARCH, MONTH, NOW, ended, live, rows, some_past
from tests.harness.sample_cluster import Connection, Shell

pytestmark = pytest.mark.db


@pytest.fixture
def past(connection: Connection) -> list[int]:
    """Two jobs of March, one of April, one that waits."""
    return some_past(connection)


FORMS = ("march.sql", "march.sql.gz", "march.parquet")


@pytest.mark.parametrize("name", FORMS)
def test_a_month_goes_to_a_file_and_comes_back(
    connection: Connection, shell: Shell, past: list[int], tmp_path: Path, name: str
) -> None:
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow", reason="pip install 'oarpy-scheduler[parquet]'")
    before = rows(connection)
    file_away(connection, NOW, MONTH)
    file = str(tmp_path / name)
    refused = shell("oarpy", "history", "drop", "2026-03")
    assert refused.status == 1
    assert "2026-03 has no archive that has all of it" in refused.err
    assert shell.done("oarpy", "history", "archive", "2026-03", "--to", file) == f"2 jobs of 2026-03 are in {file}\n"
    again = shell("oarpy", "history", "archive", "2026-03", "--to", file)
    assert (again.status, "is there already" in again.err) == (2, True)
    assert shell.done("oarpy", "history", "restore", file) == "2026-03 is there already\n"
    assert shell.done("oarpy", "history", "drop", "2026-03").startswith("2 jobs of 2026-03 dropped, ")
    assert [job for (job,) in connection.execute("SELECT job_id FROM oar_all.jobs ORDER BY 1")] == past[2:]
    assert shell("oarstat", "-j", str(past[0])).status == 4
    assert shell("oaraccounting", "--reinitialize").status == 1
    assert shell.done("oarpy", "history", "restore", file) == "2 jobs of 2026-03 are back\n"
    assert shell.done("oarpy", "history", "restore", file) == "2026-03 is there already\n"
    assert rows(connection) == before
    assert f" {file}\n" in shell.done("oarpy", "history", "list")
    assert check(connection.info.dsn) == ()


def test_psql_reads_a_sql_archive(
    connection: Connection, shell: Shell, past: list[int], tmp_path: Path, empty_dsn: str
) -> None:
    """Its statements are plain: an analyst's own database takes them."""
    file_away(connection, NOW, MONTH)
    file = tmp_path / "march.sql"
    shell.done("oarpy", "history", "archive", "2026-03", "--to", str(file))
    with psycopg.connect(empty_dsn) as other:
        lines = iter(file.read_bytes().splitlines(keepends=True))
        for line in lines:
            if not line.startswith(b"COPY"):
                other.execute(line)
                continue
            with other.cursor().copy(line.replace(b"stdin;", b"stdin")) as copy:
                for row in iter(lambda: next(lines), b"\\.\n"):
                    copy.write(row)
        assert other.execute("SELECT job_id FROM oar_past.jobs ORDER BY 1").fetchall() == [(past[0],), (past[1],)]
        described = other.execute("SELECT description FROM oar_past.event_logs WHERE type = 'TOLD'").fetchall()
        assert described == [("a\tb\\c\nd",)] * 2


@pytest.fixture
def archived(connection: Connection, shell: Shell, past: list[int], tmp_path: Path) -> Iterator[Path]:
    """The archive of March, which is dropped; what a test does with it changes nothing."""
    file_away(connection, NOW, MONTH)
    file = tmp_path / "march.sql.gz"
    shell.done("oarpy", "history", "archive", "2026-03", "--to", str(file))
    shell.done("oarpy", "history", "drop", "2026-03")
    before = rows(connection)
    yield file
    assert rows(connection) == before


def spoilt(text: bytes, how: str) -> bytes:
    """An archive that is not what it was."""
    match how:
        case "cut":
            return text[: len(text) // 2]
        case "changed":
            return text.replace(b"\tPASSIVE\t", b"\tINTERACTIVE\t", 1)
        case "lacking":
            lines = text.splitlines(keepends=True)
            place = next(
                number for number, line in enumerate(lines) if line.startswith(b'COPY oar_past."job_state_logs')
            )
            return b"".join([*lines[: place + 1], *lines[place + 2 :]])
        case "column":
            return text.replace(b'"job_name"', b'"job_nose"')
        case "no archive":
            return b"SELECT 1;\n"
    raise AssertionError(how)


SPOILT = {
    "cut": "no whole archive: its end is missing|does not fit|its rows are not",
    "changed": "its rows are not those that were archived: jobs has 2 rows",
    "lacking": "its rows are not those that were archived: job_state_logs has ",
    "column": r"does not fit revision \d+: column jobs.job_nose \(text\) is not there",
    "no archive": "is no whole archive: it does not begin as one",
}


@pytest.mark.parametrize("how", SPOILT)
def test_an_archive_that_is_not_whole_changes_nothing(shell: Shell, archived: Path, how: str) -> None:
    other = archived.with_name("spoilt.sql")
    other.write_bytes(spoilt(gzip.decompress(archived.read_bytes()), how))
    refused = shell("oarpy", "history", "restore", str(other))
    assert refused.status == 1, refused
    assert re.search(SPOILT[how], refused.err), refused.err


def test_a_file_cut_off_changes_nothing(shell: Shell, archived: Path) -> None:
    archived.write_bytes(archived.read_bytes()[:-200])
    assert shell("oarpy", "history", "restore", str(archived)).status == 1


def test_jobs_that_end_up_in_a_dropped_month_are_filed_in_the_next(
    connection: Connection, past: list[int], shell: Shell
) -> None:
    file_away(connection, NOW, MONTH)
    shell.done("oarpy", "history", "drop", "2026-03", "--yes")
    late = ended(connection, MARCH)
    file_away(connection, NOW, MONTH)
    found = connection.execute("SELECT to_char(month, 'YYYY-MM') FROM oar_past.jobs WHERE job_id = %s", [late])
    assert found.fetchall() == [("2026-04",)]


def test_archives_older_than_the_retention_are_dropped(
    connection: Connection, past: list[int], shell: Shell, tmp_path: Path
) -> None:
    """The module does both by itself; what has no archive stays."""
    settings = replace(Configuration(), history=HistorySettings(keep_live=MONTH, retention=MONTH))
    module = Accounting(settings)
    assert module.run_once(connection, NOW).word == "moved 3 to the past"
    assert module.run_once(connection, NOW) == Outcome()
    shell.done("oarpy", "history", "archive", "2026-04", "--to", str(tmp_path / "april.sql"))
    assert module.run_once(connection, NOW + timedelta(hours=2)).word == "dropped 2026-04"
    assert live(connection) == past[3:]
    assert connection.execute("SELECT job_id FROM oar_past.jobs ORDER BY 1").fetchall() == [(past[0],), (past[1],)]


def test_a_month_that_changed_since_its_archive_is_not_dropped(
    connection: Connection, past: list[int], shell: Shell, tmp_path: Path
) -> None:
    file_away(connection, NOW, MONTH)
    shell.done("oarpy", "history", "archive", "2026-03", "--to", str(tmp_path / "march.sql"))
    ended(connection, MARCH)
    file_away(connection, NOW, MONTH)
    assert shell("oarpy", "history", "drop", "2026-03").status == 1


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("archive", "2026-13", "--to", "a.sql"), 2),
        (("archive", "2026-03", "--to", "a.txt"), 2),
        (("archive", "2020-01", "--to", "a.sql"), 4),
        (("drop", "2020-01"), 4),
        (("restore", "nothing.sql"), 4),
        (("restore", "nothing.txt"), 2),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    connection: Connection, past: list[int], shell: Shell, words: tuple[str, ...], status: int
) -> None:
    file_away(connection, NOW, MONTH)
    refused = shell("oarpy", "history", *words)
    assert (refused.status, refused.out) == (status, "")
    assert refused.err.count("\n") <= 2
