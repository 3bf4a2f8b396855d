"""``oarsub -k``: whose key a job gets, and what is refused."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from oarpy.configuration import load
from oarpy.modules.accounting import Accounting
from oarpy.store.jobs import submissions
from oarpy.store.jobs.submissions import KeyPair
from tests.harness.oarsub_cluster import Connection, Submitter
from tests.harness.waiting import until

pytestmark = [pytest.mark.db, pytest.mark.kept]


def own_key(folder: Path, passphrase: str = "") -> Path:
    path = folder / "own"
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", "me", "-f", str(path)]
    subprocess.run(words, check=True)
    return path


def keys(connection: Connection) -> dict[int, tuple[str, str]]:
    rows = connection.execute("SELECT job_id, public_key, private_key FROM job_keys ORDER BY 1").fetchall()
    return {job: (public, private) for job, public, private in rows}


def test_a_key_is_made_for_each_job(connection: Connection, oarsub: Submitter, tmp_path: Path) -> None:
    jobs = oarsub.job_ids("-k", "-e", "key.%jobid%", "--array", "2", "date")
    kept = keys(connection)
    assert sorted(kept) == jobs
    assert len({public for public, _ in kept.values()}) == 2
    for job in jobs:
        path = tmp_path / f"key.{job}"
        assert (path.read_text(), path.stat().st_mode & 0o777) == (kept[job][1], 0o600)
    oarsub.job_id("date")
    assert sorted(keys(connection)) == jobs, "who does not ask gets none"


@pytest.mark.parametrize("way", ["file", "inline", "variable", "script"])
def test_a_key_of_ones_own(
    connection: Connection, oarsub: Submitter, tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = own_key(tmp_path)
    script = tmp_path / "job.sh"
    script.write_text(f"#!/bin/sh\n#OAR -k\n#OAR -i {path}\n")
    script.chmod(0o755)
    words = {"file": ("-i", str(path)), "inline": ("--import-job-key-inline-priv", path.read_text()), "variable": ()}
    if way == "variable":
        monkeypatch.setenv("OAR_JOB_KEY_FILE", str(path))
    job = oarsub.job_id("-S", str(script)) if way == "script" else oarsub.job_id(*words[way], "date")
    public, private = keys(connection)[job]
    assert path.with_suffix(".pub").read_text().startswith(public)
    assert private == path.read_text()
    again = oarsub("-i", str(path), "date")
    assert (again.status, again.err.partition(" (")[0]) == (2, f"oarsub: job {job} has this key already")
    seen = "".join(oarsub(*shown, command="oarstat").out for shown in (("-f", "-j", str(job)), ("-J", "-j", str(job))))
    assert private.splitlines()[1] not in seen


def test_a_key_is_written_to_a_file_that_nobody_has_open(
    connection: Connection, oarsub: Submitter, tmp_path: Path
) -> None:
    path = tmp_path / "key"
    path.write_text("before")
    path.chmod(0o644)
    with path.open() as other:
        job = oarsub.job_id("-k", "-e", "key", "date")
        assert other.read() == "before"
    assert (path.read_text(), path.stat().st_mode & 0o777) == (keys(connection)[job][1], 0o600)
    (tmp_path / "elsewhere").write_text("theirs")
    path.unlink()
    path.symlink_to("elsewhere")
    assert "no plain file" in oarsub("-k", "-e", "key", "date").err
    assert (tmp_path / "elsewhere").read_text() == "theirs"
    assert sorted(one.name for one in tmp_path.iterdir() if one.name.startswith("key")) == ["key"]


def test_what_is_refused_is_said_in_a_line(connection: Connection, oarsub: Submitter, tmp_path: Path) -> None:
    locked = own_key(tmp_path, "secret")
    for words, what in (
        (("-i", str(locked)), f"'{locked}' is no private SSH key without a passphrase"),
        (("-i", "none"), "key file 'none' cannot be read"),
        (("--import-job-key-inline-priv", "x"), "the key given is no private SSH key"),
        (("-k", "-e", "key", "--array", "2"), "an array with one file for its keys"),
        (("-i", str(locked), "--array", "2"), "an array with a key of one's own"),
    ):
        result = oarsub(*words, "date")
        assert result.status in (1, 2)
        assert result.err.startswith(f"oarsub: {what}"), result
        assert result.err.count("\n") == 1
    assert connection.execute("SELECT count(*) FROM jobs").fetchone() == (0,)


def test_a_job_whose_key_cannot_be_written_is_deleted(connection: Connection, oarsub: Submitter) -> None:
    result = oarsub("-k", "-e", "no/folder", "date")
    assert (result.status, result.out) == (1, "")
    job = connection.execute("SELECT job_id FROM kill_requests").fetchone()
    assert job is not None
    assert result.err == (
        f"oarsub: 'no/folder' cannot be written: No such file or directory (job {job[0]} is deleted)\n"
    )


def test_a_key_is_written_while_no_transaction_is_open(
    connection: Connection, oarsub: Submitter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed = list[object]()

    def write(path: str, text: str) -> None:
        committed.append(connection.execute("SELECT count(*) FROM jobs").fetchone())

    monkeypatch.setattr("oarpy.frontend.local_files.write_private", write)
    oarsub.job_id("-k", "-e", "key", "date")
    assert committed == [(1,)]


def test_one_key_given_twice_at_once_opens_one_job(
    connection: Connection, dsn: str, oarsub: Submitter, tmp_path: Path
) -> None:
    first, second = oarsub.job_id("date"), oarsub.job_id("date")
    pair = KeyPair("ssh-ed25519 A", "private", own=True)
    with psycopg.connect(dsn) as one, ThreadPoolExecutor(1) as pool:
        assert submissions.job_with_key(one, pair.public) is None
        submissions.keep_keys(one, [first], [pair])
        other = pool.submit(submissions.job_with_key, connection, pair.public)
        until(lambda: blocked(dsn), "the other waits")
        one.commit()
        assert other.result(60) == first != second


def blocked(dsn: str) -> bool:
    """Tell whether somebody waits for an advisory lock of this database."""
    with psycopg.connect(dsn) as connection:
        return bool(
            connection.execute(
                "SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database"
                " WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()"
            ).fetchall()
        )


@pytest.mark.parametrize(("kind", "form"), [("rsa", "PEM"), ("ecdsa", "PKCS8"), ("rsa", "RFC4716")])
def test_keys_of_other_kinds_are_read(
    connection: Connection, oarsub: Submitter, tmp_path: Path, kind: str, form: str
) -> None:
    path = tmp_path / "own"
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-m", form, "-N", "", "-f", str(path)], check=True)
    job = oarsub.job_id("-i", str(path), "date")
    assert path.with_suffix(".pub").read_text().startswith(keys(connection)[job][0] + " ")


def test_keys_go_when_their_jobs_are_over(connection: Connection, oarsub: Submitter) -> None:
    over, live = oarsub.job_id("-k", "date"), oarsub.job_id("-k", "date")
    connection.execute("UPDATE jobs SET state = 'Error', ended_at = now() WHERE job_id = %s", [over])
    Accounting(load()).run_once(connection, datetime.now(UTC))
    assert list(keys(connection)) == [live]
