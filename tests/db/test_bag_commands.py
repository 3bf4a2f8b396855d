"""``oarsub --bag``, ``oarstat --bag`` and ``oardel --bag``: what they print, and what bad input gets."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import pytest

from tests.harness.oarsub_cluster import Connection, Submitter, contents, decide

pytestmark = [pytest.mark.db, pytest.mark.kept]

_ONE = ("-l", "/core=1,walltime=0:10:0", "--answer-timeout", "0")

# (arguments, exit status, what the line must say)
REFUSED: list[tuple[tuple[str, ...], int, str]] = [
    (("--bag", "0", *_ONE, "date"), 2, "--bag"),
    (("--bag", "-1", *_ONE, "date"), 2, "--bag"),
    (("--bag", "ten", *_ONE, "date"), 2, "--bag"),
    (("--bag", "10000000", *_ONE, "date"), 2, "10000"),
    (("--bag", "3", *_ONE), 2, "no command"),
    (("--bag", "3", *_ONE, "--array", "3", "date"), 2, "--bag with --array"),
    (("--bag", "3", *_ONE, "-r", "2035-01-01 12:00", "date"), 2, "--bag with -r"),
    (("--bag", "3", "-I"), 2, "-I"),
    (("--bag", "3", *_ONE, "-l", "/core=2,walltime=0:5:0", "date"), 2, "--bag with several -l"),
    (("--bag", "3", *_ONE, "--slack", "2h", "date"), 2, "--bag with --slack"),
    (("--bag", "3", *_ONE, "--hold", "date"), 2, "--bag with --hold"),
    (("--bag", "3", *_ONE, "-t", "besteffort", "date"), 2, "--bag with -t besteffort"),
    (("--bag", "3", *_ONE, "-t", "container", "date"), 2, "--bag with -t container"),
    (("--bag", "3", *_ONE, "--until", "2020-01-01", "date"), 2, "before one task can be"),
    (("--bag", "3", *_ONE, "--until", "+5m", "date"), 2, ""),
    (("--bag", "3", *_ONE, "--until", "2090-01-01", "date"), 2, "too far away"),
    (("--bag", "3", *_ONE, "--until", "someday", "date"), 2, "not a date"),
    (("--bag", "3", *_ONE, "--strict", "date"), 2, "--strict without --until"),
    ((*_ONE, "--strict", "date"), 2, "--strict without --bag"),
    ((*_ONE, "-t", "bag", "date"), 2, "-t bag without --bag"),
    (("--bag", "3", *_ONE, "--dry-run", "date"), 2, "--dry-run with --bag"),
]


def test_refusals_leave_no_trace(connection: Connection, oarsub: Submitter) -> None:
    before = contents(connection)
    wrong = []
    for arguments, status, words in REFUSED:
        result = oarsub(*arguments)
        one_line = result.err.count("\n") == 1 and result.err.startswith("oarsub: ") and len(result.err) < 600
        if (result.status, result.out) != (status, "") or not one_line or words not in result.err:
            wrong.append((arguments, result))
    assert wrong == []
    assert contents(connection) == before


def test_a_cluster_that_promises_nothing_takes_no_bag(
    connection: Connection, oarsub: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OARPY_SCHEDULER_PROMISES", "false")
    before = contents(connection)
    result = oarsub("--bag", "3", *_ONE, "date")
    assert (result.status, result.out, "makes no promises" in result.err) == (3, "", True)
    assert contents(connection) == before


def test_a_bag_is_shown_with_what_was_promised_and_deleted(connection: Connection, oarsub: Submitter) -> None:
    until = (datetime.now() + timedelta(hours=5)).strftime("%Y-%m-%d %H:%M:%S")
    submitted = oarsub("--bag", "2", *_ONE, "--until", until, "date")
    (bag,) = [line.removeprefix("OAR_ARRAY_ID=") for line in submitted.out.splitlines() if "ARRAY" in line]
    decide(connection)
    shown = oarsub("--bag", bag, command="oarstat")
    assert f"promised completion : {until}" in shown.out
    told = json.loads(oarsub("--bag", bag, "-J", command="oarstat").out)
    assert (told["tasks"], told["states"]) == (2, {"Waiting": 2})
    assert [change["kind"] for change in told["changes"]] == ["PROMISED"]
    assert oarsub("--bag", bag, command="oardel").status == 0
    missing = oarsub("--bag", "99999", command="oarstat")
    assert (missing.status, missing.out) == (4, "")


def test_a_bag_alone_moves_its_tasks(connection: Connection, oarsub: Submitter) -> None:
    submitted = oarsub("--bag", "2", *_ONE, "date")
    (bag,) = [line.removeprefix("OAR_ARRAY_ID=") for line in submitted.out.splitlines() if "ARRAY" in line]
    decide(connection)
    before = contents(connection)
    later = (datetime.now() + timedelta(hours=5)).strftime("%Y-%m-%d %H:%M:%S")
    refused = oarsub(bag, "--until", later, command="oarwindow")
    assert (refused.status, refused.out, refused.err.count("\n")) == (1, "", 1)
    assert f"job {bag} is a task of a bag" in refused.err
    assert contents(connection) == before
