"""Scripts are kept as they were submitted: which, how often, for whom, and how long."""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path

import pytest

from oarpy.frontend import local_files
from oarpy.model.states import JobState
from oarpy.store.jobs import execution, scripts
from tests.db.test_rules_that_ask import add_rule
from tests.harness.oarsub_cluster import Connection, Submitter, run_pass
from tests.harness.sample_cluster import ME, add_job

pytestmark = [pytest.mark.db, pytest.mark.kept]

TEXT = "#!/bin/sh\n#OAR -n kept\necho h\u00e9llo\n"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return written(tmp_path / "job.sh")


def written(path: Path, text: str = TEXT) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def kept(connection: Connection) -> list[tuple[int, str | None]]:
    return connection.execute("SELECT submission_id, script FROM submissions ORDER BY 1").fetchall()


def sent(connection: Connection, job: int) -> str:
    """Return the script that the launcher finds of a job."""
    run_pass(connection)
    (launch,) = execution.launches(connection, [job], JobState.RUNNING)
    assert launch.kept_script is not None
    return scripts.contents(connection, [launch.kept_script])[launch.kept_script]


@pytest.mark.parametrize(
    "words",
    [
        ("./job.sh",),
        ("./job.sh a 'b c' >out; date",),
        ("-S", "job.sh one"),
        ("-S", "./job.sh"),
        ("--array", "3", "./job.sh"),
    ],
)
def test_a_script_is_kept_as_it_is(
    connection: Connection, oarsub: Submitter, script: Path, words: tuple[str, ...]
) -> None:
    jobs = oarsub.job_ids(*words)
    written(script, "#!/bin/sh\necho another\n")
    digest = sha256(TEXT.encode()).hexdigest()
    assert kept(connection) == [(1, digest)]
    assert connection.execute("SELECT digest, content FROM kept_scripts").fetchall() == [(digest, TEXT)]
    assert sent(connection, jobs[0]) == TEXT
    shown = oarsub("--script", str(jobs[-1]), command="oarstat")
    assert (shown.status, shown.out) == (0, TEXT)
    assert json.loads(oarsub("-J", "--script", str(jobs[-1]), command="oarstat").out) == {"script": TEXT}


def test_a_scanned_script_is_read_once(
    connection: Connection, oarsub: Submitter, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its lines ask for and what runs are of one instant."""

    def read_and_change(path: str, largest: int, **how: bool) -> bytes:
        found = read_file(path, largest, **how)
        written(script, "#!/bin/sh\necho another\n")
        return found

    read_file = local_files.read_file
    monkeypatch.setattr(local_files, "read_file", read_and_change)
    assert sent(connection, oarsub.job_id("-S", "./job.sh")) == TEXT


def test_a_thousand_jobs_have_one_copy(connection: Connection, oarsub: Submitter, script: Path, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text("./job.sh a\n./job.sh b\n" * 20, encoding="utf-8")
    assert oarsub("--batch", str(lines)).status == 0
    oarsub.job_id(str(script))
    assert len({digest for _, digest in kept(connection)}) == 1
    assert connection.execute("SELECT count(*) FROM kept_scripts").fetchone() == (1,)


def test_what_is_no_script_of_the_user_is_not_kept(
    connection: Connection, oarsub: Submitter, script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs of the site, binaries, files of another directory, what is too large, and what is no UTF-8."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    elsewhere = written(tmp_path.parent / f"{tmp_path.name}-elsewhere" / "job.sh")
    (tmp_path / "binary").write_bytes(b"\x7fELF\0")
    (tmp_path / "binary").chmod(0o755)
    written(tmp_path / "large.sh", "#!/bin/sh\n" + "#" * 300_000)
    (tmp_path / "latin.sh").write_bytes(b"#!/bin/sh\necho \xe9\n")
    (tmp_path / "latin.sh").chmod(0o755)
    for words in (
        ("date",),
        (str(elsewhere),),
        ("-d", "/tmp", "./job.sh"),
        ("./binary",),
        ("./large.sh",),
        ("./latin.sh",),
        ("sh ./job.sh",),
        ("$HOME/job.sh",),
    ):
        assert oarsub(*words).status == 0, words
    assert {digest for _, digest in kept(connection)} == {None}
    assert connection.execute("SELECT count(*) FROM kept_scripts").fetchone() == (0,)


def test_a_script_below_the_home_is_the_users(
    connection: Connection, oarsub: Submitter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path.parent / f"{tmp_path.name}-home"
    monkeypatch.setenv("HOME", str(home))
    job = oarsub.job_id("-d", "/tmp", str(written(home / "job.sh")))
    assert sent(connection, job) == TEXT


def test_a_site_may_keep_none(
    connection: Connection, oarsub: Submitter, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OARPY_JOBS_KEEP_SCRIPTS", "false")
    oarsub.job_id("./job.sh")
    assert kept(connection) == [(1, None)]


def test_a_rule_that_puts_something_before_the_script_runs_what_it_says(
    connection: Connection, oarsub: Submitter, script: Path
) -> None:
    add_rule(connection, "job.command = '/usr/bin/env ' + job.command")
    oarsub.job_id("./job.sh")
    assert kept(connection) == [(1, None)]


def test_what_is_changed_or_submitted_again_keeps_its_script(
    connection: Connection, oarsub: Submitter, script: Path
) -> None:
    first, second = oarsub.job_ids("--array", "2", "./job.sh")
    written(script, "#!/bin/sh\necho another\n")
    assert oarsub(str(second), "-n", "other", command="oaralter").status == 0
    connection.execute("UPDATE jobs SET state = 'toError' WHERE job_id = %s", [first])
    connection.execute("UPDATE jobs SET state = 'Error', ended_at = now() WHERE job_id = %s", [first])
    again = oarsub.job_id("--resubmit", str(first))
    assert sent(connection, second) == TEXT
    assert sent(connection, again) == TEXT


def test_the_script_of_another_is_not_shown(connection: Connection, oarsub: Submitter) -> None:
    job = add_job(connection, user="ann" if ME != "ann" else "ben")
    shown = oarsub("--script", str(job), command="oarstat")
    assert (shown.status, shown.out) == ((4, "") if os.geteuid() == 0 else (5, ""))
    assert oarsub("--script", "999", command="oarstat").status == 4


def test_a_script_is_forgotten_when_no_job_has_it(connection: Connection, oarsub: Submitter, script: Path) -> None:
    oarsub.job_id("./job.sh")
    oarsub.job_id(str(written(script.parent / "second.sh", "#!/bin/sh\ntrue\n")))
    connection.execute("UPDATE kept_scripts SET asked_at = now() - interval '2 days'")
    connection.execute("UPDATE submissions SET script = NULL WHERE submission_id = 2")
    scripts.forget_unused(connection)
    assert connection.execute("SELECT content FROM kept_scripts").fetchall() == [(TEXT,)]
    connection.execute("UPDATE submissions SET script = NULL")
    scripts.keep(connection, [TEXT])  # asked for again just now, by a submission that is not there yet
    scripts.forget_unused(connection)
    assert connection.execute("SELECT count(*) FROM kept_scripts").fetchone() == (1,)
