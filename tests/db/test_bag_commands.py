"""``oarsub --bag``, ``oarstat --bag`` and ``oardel --bag``: what they print."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import pytest

from tests.harness.oarsub_cluster import Connection, Submitter, contents, decide

pytestmark = [pytest.mark.db, pytest.mark.kept]

_ONE = ("-l", "/core=1,walltime=0:10:0", "--answer-timeout", "0")


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
