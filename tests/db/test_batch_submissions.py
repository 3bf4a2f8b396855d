"""``oarsub --batch``: many submissions in one transaction, each as if it were submitted by itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.harness.gateway_process import gateway
from tests.harness.oarsub_cluster import Connection, Submitter, build, contents, settings
from tests.harness.sample_cluster import ME, add_job

pytestmark = [pytest.mark.db, pytest.mark.kept]

LINES = (
    ("date",),
    ("-n", "first", "-l", "/nodes=1/core=2,walltime=0:10:0", "echo 'a b' $HOME"),
    ("-l", "{mem > 8}/nodes=1", "-l", "/core=1", "-p", "cpu > 2", "-t", "besteffort", "sleep", "5 s"),
    ("--hold", "--array=3", "-a", "1", "date", "-n", "second"),
    ("-O", "out", "--checkpoint", "60", "--notify", "mail:a@b", "--", "prog", "-n", "third"),
)
JSON = (
    {"command": "date"},
    {"command": "echo 'a b' $HOME", "name": "first", "alternatives": ["/nodes=1/core=2,walltime=0:10:0"]},
    {
        "command": "sleep '5 s'",
        "alternatives": ["{mem > 8}/nodes=1", "/core=1"],
        "properties": "cpu > 2",
        "types": ["besteffort"],
    },
    {"command": "date", "hold": True, "array_size": 3, "dependencies": ["1"], "name": "second"},
    {"command": "prog -n third", "stdout": "out", "checkpoint": 60, "notify": "mail:a@b"},
)


def quoted(words: Sequence[str]) -> str:
    return " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)


STORED = """
    SELECT j.job_id - %(base)s, j.array_id - %(base)s, j.array_index,
        to_jsonb(j) - ARRAY['job_id', 'array_id', 'submission_id', 'submitted_at'],
        to_jsonb(s) - ARRAY['submission_id', 'initial_request'],
        (SELECT jsonb_agg(jsonb_build_array(m.position, m.walltime, g.position, g.filter, r.position, r.level, r.count)
                          ORDER BY m.position, g.position, r.position)
         FROM moldable_descriptions m JOIN resource_groups g USING (moldable_id)
             JOIN resource_descriptions r USING (group_id)
         WHERE m.submission_id = s.submission_id),
        (SELECT jsonb_agg(to_jsonb(d) - 'job_id') FROM job_dependencies d WHERE d.job_id = j.job_id)
    FROM jobs j JOIN submissions s USING (submission_id) WHERE j.job_id > %(base)s ORDER BY j.job_id
"""


def stored(connection: Connection, base: int) -> list[tuple[object, ...]]:
    """What is stored of jobs with higher ids than ``base``, but when they were submitted and how that was typed."""
    return connection.execute(STORED, {"base": base}).fetchall()


def add_rule(connection: Connection, name: str, text: str) -> None:
    """Let one more rule run after the others."""
    connection.execute("INSERT INTO admission_rules (name, priority, rule_text) VALUES (%s, 99, %s)", (name, text))


@pytest.mark.parametrize("lines", [[quoted(line) for line in LINES], [json.dumps(line) for line in JSON]])
def test_a_batch_stores_what_single_submissions_would(
    connection: Connection, oarsub: Submitter, tmp_path: Path, lines: list[str]
) -> None:
    for line in LINES:
        assert oarsub(*line).status == 0
    alone = stored(connection, 0)
    batch = tmp_path / "batch"
    batch.write_text("# jobs of today\n\n" + "\n".join(lines), encoding="utf-8")
    result = oarsub("--batch", str(batch))
    printed = "OAR_JOB_ID=8\nOAR_JOB_ID=9\nOAR_JOB_ID=10\nOAR_ARRAY_ID=11\nOAR_JOB_ID=14\n"
    note = "type besteffort: the job goes to queue besteffort\n"
    assert (result.status, result.out, result.err) == (0, printed, note)
    assert len(alone) == 7
    assert stored(connection, 7) == alone


def test_options_beside_a_batch_hold_for_lines_that_say_nothing_else(
    connection: Connection, oarsub: Submitter, tmp_path: Path
) -> None:
    (tmp_path / "batch").write_text('date\n-n own -t besteffort date\n{"command": "date", "name": "json"}\n')
    result = oarsub("--batch", "batch", "-n", "common", "-t", "idempotent", "--hold", "-J")
    printed = [json.loads(line) for line in result.out.splitlines()]
    assert [(one["line"], one["job_ids"]) for one in printed] == [(1, [1]), (2, [2]), (3, [3])]
    rows = connection.execute("SELECT job_name, types, state FROM jobs ORDER BY job_id").fetchall()
    assert rows == [
        ("common", ["idempotent"], "Hold"),
        ("own", ["besteffort"], "Hold"),
        ("json", ["idempotent"], "Hold"),
    ]
    typed = connection.execute("SELECT initial_request FROM submissions ORDER BY submission_id").fetchall()
    assert typed == [("oarsub date",), ("oarsub -n own -t besteffort date",), ("oarsub -n json date",)]


def test_one_line_that_is_wrong_keeps_all_out_and_each_is_told(
    connection: Connection, oarsub: Submitter, tmp_path: Path
) -> None:
    add_rule(connection, "no_x", "if job.name == 'x': refuse('no')")
    before = contents(connection)
    lines = ["date", "-l /nodes=99 date", "-n x date", "--wait date", '{"comand": "date"}', "-q none date", "'date"]
    (tmp_path / "batch").write_text("\n".join(lines))
    result = oarsub("--batch", "batch")
    assert (result.status, result.out) == (3, "")
    assert result.err.splitlines() == [
        "oarsub: batch, line 2: the request can never run: needs 99 nodes, 4 exist (oarnodes shows what exists)",
        "oarsub: batch, line 3: no (admission rule no_x)",
        "oarsub: batch, line 4: option --wait not recognized (options of a line say what a job is, no more)",
        "oarsub: batch, line 5: it is not understood: Object contains unknown field `comand`"
        " (keys are those of the body of POST /jobs)",
        "oarsub: batch, line 6: unknown queue 'none' (queues: admin, besteffort, closed, default)",
        "oarsub: batch, line 7: it cannot be split into words: No closing quotation (quote as in a shell)",
        "oarsub: nothing was submitted: 6 lines of 7 cannot be",
    ]
    assert contents(connection) == before


def test_limits_hold_within_a_batch(
    connection: Connection, oarsub: Submitter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rule that counts the jobs of a user counts those of the lines before."""
    add_job(connection, "Waiting")
    rule = "if site.count_jobs(user=job.user) + job.array_size > 4: refuse('too many')"
    add_rule(connection, "few", rule)
    (tmp_path / "batch").write_text("date\n--array 2 date\ndate\n")
    result = oarsub("--batch", "batch")
    assert (result.status, result.err.splitlines()[0]) == (3, "oarsub: batch, line 3: too many (admission rule few)")
    (tmp_path / "batch").write_text("date\n--array 2 date\n")
    assert oarsub("--batch", "batch").status == 0
    monkeypatch.setenv("OARPY_SUBMISSION_MAXIMUM_ARRAY_SIZE", "2")
    assert "batch of 3 jobs (at most 2" in oarsub("--batch", "batch").err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--batch", "b", "date"), "--batch with a command (each line of the batch has its own)"),
        (("--batch", "b", "--wait"), "--batch with --wait (leave it out)"),
        (("--batch", "b", "--resubmit", "1"), "--batch with --resubmit (give the request instead)"),
        (("--batch", "b", "--dry-run"), "--batch with --dry-run (give the options of one line)"),
        (("--batch", "missing"), "file 'missing' does not exist or is no plain file (check its name)"),
        (("--batch", "empty"), "batch 'empty' holds no line (one submission a line)"),
    ],
)
def test_what_a_batch_cannot_be(oarsub: Submitter, tmp_path: Path, arguments: tuple[str, ...], told: str) -> None:
    (tmp_path / "b").write_text("date\n")
    (tmp_path / "empty").write_text("# nothing\n")
    result = oarsub(*arguments)
    assert (result.status, result.out, result.err) == (2, "", f"oarsub: {told}\n")


def test_a_batch_of_standard_input_through_the_gateway(
    connection: Connection, cluster_environment: dict[str, str]
) -> None:
    build(connection)
    with gateway({**cluster_environment, **settings()}, workers=1) as running:
        done = running.run("oarsub", "--batch", "-", stdin="date\n-n second date\n")
        assert (done.status, done.out, done.err) == (0, "OAR_JOB_ID=1\nOAR_JOB_ID=2\n", "")
        rows = connection.execute("SELECT user_name, job_name FROM jobs ORDER BY job_id").fetchall()
        assert rows == [(ME, ""), (ME, "second")]
