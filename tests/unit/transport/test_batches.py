"""Starts of several jobs: what is large goes in several lines, what cannot be read is refused by name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from oarpy.wire.frames import Malformed
from oarpy.wire.jobs import JobKey, JobSpec, UnreadableSpec
from oarpy.wire.lines import MAXIMUM_LINE
from oarpy.wire.messages import Refused, RunScript, ScriptEnded, Start, command_lines, decode_command, encode_command


def spec(job: int, **values: Any) -> JobSpec:
    return JobSpec(**{"job": job, "attempt": 1, "user": "u", "command": "true", "directory": "/", **values})


@pytest.mark.parametrize(
    ("name", "value"),
    [("environment", {"A=B": "1"}), ("environment", {"A": "1\0"}), ("command", "a\0b"), ("walltime", -1), ("new", 1)],
)
def test_a_specification_that_cannot_be_read_leaves_the_others_alone(name: str, value: object) -> None:
    jobs = [spec(1), spec(2, environment={"A": "1"}), spec(3)]
    line = json.loads(encode_command(Start(tuple(jobs), "life")))
    line["jobs"]["each"][1][name] = value
    start = decode_command(json.dumps(line).encode())
    assert isinstance(start, Start)
    assert (start.jobs[0], start.jobs[2], start.incarnation) == (jobs[0], jobs[2], "life")
    unfit = start.jobs[1]
    assert isinstance(unfit, UnreadableSpec)
    assert unfit.key == JobKey(2, 1)
    assert name in unfit.problem


def test_what_all_specifications_have_wrong_in_common_refuses_each() -> None:
    line = json.loads(encode_command(Start((spec(1), spec(2)))))
    line["jobs"]["shared"]["user"] = None
    start = decode_command(json.dumps(line).encode())
    assert isinstance(start, Start)
    assert [(type(one), one.key) for one in start.jobs] == [
        (UnreadableSpec, JobKey(1, 1)),
        (UnreadableSpec, JobKey(2, 1)),
    ]


@pytest.mark.parametrize("job", [None, "1", -1, [], True])
def test_a_specification_of_nobody_is_malformed(job: object) -> None:
    line = json.loads(encode_command(Start((spec(1), spec(2)))))
    line["jobs"]["each"][0]["job"] = job
    with pytest.raises(Malformed):
        decode_command(json.dumps(line).encode())


@pytest.mark.long
def test_large_specifications_are_sent_one_after_the_other() -> None:
    jobs = tuple(spec(job, environment={"LARGE": f"{job}" + "x" * 300_000}) for job in range(240))
    assert len(encode_command(Start(jobs))) > MAXIMUM_LINE
    lines, refusals = command_lines(Start(jobs, "life"))
    assert not refusals
    assert max(map(len, lines)) < MAXIMUM_LINE // 4
    starts = [decode_command(line) for line in lines]
    assert [(job.key, job.environment) for one in starts if isinstance(one, Start) for job in one.jobs] == [
        (job.key, job.environment) for job in jobs
    ]
    assert {one.incarnation for one in starts if isinstance(one, Start)} == {"life"}


@pytest.mark.long
def test_a_specification_that_no_line_holds_is_refused_by_name() -> None:
    large = spec(2, environment={"LARGE": "x" * MAXIMUM_LINE})
    lines, refusals = command_lines(Start((spec(1), large, spec(3))))
    assert [one.jobs[0].key for one in map(decode_command, lines) if isinstance(one, Start)] == [
        JobKey(1, 1),
        JobKey(3, 1),
    ]
    (refusal,) = refusals
    assert isinstance(refusal, Refused)
    assert (refusal.key, refusal.reason) == (JobKey(2, 1), "UNFIT")
    _, (answer,) = command_lines(RunScript("prologue", "/bin/true", 1.0, (large,)))
    assert isinstance(answer, ScriptEnded)
    assert (answer.key, answer.outcome) == (JobKey(2, 1), "UNFIT")


def test_what_is_small_is_one_line() -> None:
    start = Start((spec(1), spec(2)))
    assert command_lines(start) == ([encode_command(start)], [])
