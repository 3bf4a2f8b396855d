"""Commands and reports on the wire: what is sent is what arrives, and what is malformed is one clear error."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarpy.transport.agent import wire
from oarpy.transport.jobspec import Checkpoint, JobKey, JobSpec
from oarpy.transport.messages import (
    AgentError,
    BadMessage,
    ChangeWalltime,
    Checkpointed,
    Clean,
    Cleaned,
    Command,
    Ended,
    Forget,
    JobReport,
    Kill,
    Knocked,
    Ping,
    Pong,
    Query,
    Ready,
    Refused,
    Report,
    Resume,
    Resumed,
    Signal,
    Signalled,
    Start,
    Started,
    Suspend,
    Suspended,
    Terminate,
    Unknown,
    decode_reports,
    encode_command,
)

KEYS = (JobKey(1, 1), JobKey(12, 3))
SPEC = JobSpec(
    7,
    2,
    "ann",
    "date",
    "/home/ann",
    "o",
    "e",
    60,
    environment={"A": "b=\n"},
    variables={"C": "d"},
    nodes=("n1", "n2"),
    resources=("x = '1'",),
    checkpoint=Checkpoint(10, 12),
)

REPORTS: list[tuple[dict[str, object], Report]] = [
    ({"type": "knock", "token": "0123456789abcdef" * 2}, Knocked("0123456789abcdef" * 2)),
    (
        {
            "type": "ready",
            "version": 1,
            "pid": 5,
            "uid": 0,
            "host": "h",
            "boot_id": "b",
            "incarnation": "b:1",
            "python": "3.9.1",
            "clock": 5,
            "jobs": [{"job": 1, "attempt": 1, "state": "running"}],
        },
        Ready(1, 5, 0, "h", "b", "b:1", "3.9.1", 5.0, (JobReport(KEYS[0], "running"),)),
    ),
    ({"type": "started", "job": 1, "attempt": 1, "start": 1.5}, Started(KEYS[0], 1.5)),
    ({"type": "suspended", "job": 1, "attempt": 1, "at": 1.5}, Suspended(KEYS[0], 1.5)),
    ({"type": "checkpoint", "job": 1, "attempt": 1, "at": 1.5}, Checkpointed(KEYS[0], 1.5)),
    ({"type": "resumed", "job": 1, "attempt": 1, "at": 1.5}, Resumed(KEYS[0], 1.5)),
    (
        {
            "type": "ended",
            "job": 1,
            "attempt": 1,
            "status": None,
            "reason": "lost",
            "start": None,
            "end": 2,
            "detail": "d",
            "left": 1,
        },
        Ended(KEYS[0], None, "lost", None, 2.0, "d", 1),
    ),
    ({"type": "refused", "job": 1, "attempt": 1, "reason": "R", "detail": "d"}, Refused(KEYS[0], "R", "d")),
    ({"type": "unknown", "job": 12, "attempt": 3}, Unknown(KEYS[1])),
    ({"type": "signalled", "job": 1, "attempt": 1, "signal": 9, "taken": False}, Signalled(KEYS[0], 9, False)),
    ({"type": "cleaned", "job": 1, "attempt": 1, "killed": 3, "left": 0}, Cleaned(KEYS[0], 3, 0)),
    ({"type": "pong", "token": "t", "clock": 1.0}, Pong("t", 1.0)),
    ({"type": "error", "detail": "oh"}, AgentError("oh")),
]


@pytest.mark.parametrize(("entry", "report"), REPORTS, ids=[type(report).__name__ for _, report in REPORTS])
def test_reports_are_read(entry: dict[str, object], report: Report) -> None:
    assert decode_reports(json.dumps(entry).encode()) == [report]


def test_a_line_may_carry_several_reports() -> None:
    line = json.dumps([entry for entry, _ in REPORTS]).encode()
    assert decode_reports(line) == [report for _, report in REPORTS]


@pytest.mark.parametrize(("entry", "report"), REPORTS, ids=[type(report).__name__ for _, report in REPORTS])
def test_a_report_without_a_field_or_with_a_wrong_one_is_refused(entry: dict[str, object], report: Report) -> None:
    for name in entry:
        without = {other: value for other, value in entry.items() if other != name}
        with pytest.raises(BadMessage):
            decode_reports(json.dumps(without).encode())
        wrong: object = {"an": "object"}
        with pytest.raises(BadMessage):
            decode_reports(json.dumps({**entry, name: wrong}).encode())
        if isinstance(entry[name], int) and not isinstance(entry[name], bool):
            with pytest.raises(BadMessage):
                decode_reports(json.dumps({**entry, name: True}).encode())


@pytest.mark.parametrize("token", ["", "0" * 31, "0" * 33, "A" * 32, "0" * 31 + "\n", "../" + "0" * 29, "\u0660" * 32])
def test_a_knock_has_a_token_of_the_right_form(token: str) -> None:
    with pytest.raises(BadMessage):
        decode_reports(json.dumps({"type": "knock", "token": token}).encode())


@pytest.mark.parametrize("line", [b"", b"{", b"\xff", b"7", b"[7]", b'{"type":"x"}', b'{"type":["x"]}', b"[" * 100_000])
def test_garbage_is_one_error_line(line: bytes) -> None:
    with pytest.raises(BadMessage) as caught:
        decode_reports(line)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


_FIELDS = st.sampled_from(["type", "job", "attempt", "start", "jobs", "status", "detail"])
_VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["ready", "started", "ended", "x"])
_JSON = st.recursive(_VALUES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_FIELDS, inner))


@given(_JSON)
def test_any_json_is_a_report_or_a_bad_message(value: object) -> None:
    try:
        reports = decode_reports(json.dumps(value).encode())
    except BadMessage:
        return
    assert len(reports) == (len(value) if isinstance(value, list) else 1)


def as_read(spec: JobSpec) -> Any:
    return json.loads(json.dumps(spec.to_json()))


def test_the_agent_reads_a_start_as_it_was_written() -> None:
    other = replace(SPEC, job=8, array_index=2)
    message = wire.parse_message(encode_command(Start((SPEC, other), "b:1")))
    assert message["incarnation"] == "b:1"
    assert message["shared"]["environment"] == SPEC.environment
    assert set(message["jobs"][0]) == {"job", "array_index"}
    assert wire.read_specs(message) == [as_read(SPEC), as_read(other)]


def test_a_single_job_is_written_whole() -> None:
    message = wire.parse_message(encode_command(Start((SPEC,))))
    assert message["shared"] == {}
    assert wire.read_specs(message) == [as_read(SPEC)]


COMMANDS: list[tuple[Command, dict[str, object]]] = [
    (Kill(KEYS), {"type": "kill"}),
    (Kill(KEYS, 0), {"type": "kill", "grace": 0}),
    (Signal(KEYS, 12), {"type": "signal", "signal": 12}),
    (Suspend(KEYS), {"type": "suspend"}),
    (Resume(KEYS), {"type": "resume"}),
    (ChangeWalltime(KEYS, 60), {"type": "walltime", "seconds": 60}),
    (Clean(KEYS), {"type": "clean", "grace": 0}),
    (Clean(KEYS, 20), {"type": "clean", "grace": 20}),
    (Terminate(KEYS), {"type": "terminate"}),
    (Forget(KEYS), {"type": "forget"}),
    (Query(KEYS), {"type": "query"}),
]


@pytest.mark.parametrize(("command", "expected"), COMMANDS)
def test_the_agent_reads_commands_as_they_were_written(command: Command, expected: dict[str, object]) -> None:
    message = wire.parse_message(encode_command(command))
    assert wire.read_keys(message) == ["1.1", "12.3"]
    del message["jobs"]
    assert message == expected


def test_ping() -> None:
    assert wire.parse_message(encode_command(Ping("t"))) == {"type": "ping", "token": "t"}


BAD_FIELDS: list[tuple[str, object]] = [
    ("job", -1),
    ("job", True),
    ("job", 1.0),
    ("job", "1"),
    ("job", 1 << 47),
    ("attempt", 1 << 16),
    ("user", None),
    ("command", "nul \0"),
    ("environment", []),
    ("environment", {"": "x"}),
    ("environment", {"A=B": "x"}),
    ("environment", {"A": 1}),
    ("environment", {"A": "\0"}),
    ("variables", {"A\0": ""}),
    ("nodes", "n1"),
    ("nodes", [1]),
    ("walltime", -1),
    ("walltime", 1e9),
    ("checkpoint", [1]),
    ("checkpoint", [1, 0]),
    ("checkpoint", [-1, 12]),
    ("kill_grace", -0.1),
    ("kill_grace", float("nan")),
    ("kill_grace", float("inf")),
    ("start_deadline", "soon"),
    ("login_shell", 1),
    ("allow_root", "yes"),
    ("surprise", 1),
]


@pytest.mark.parametrize(("name", "value"), BAD_FIELDS)
def test_the_agent_refuses_bad_specifications(name: str, value: object) -> None:
    for place in ("jobs", "shared"):
        message = json.loads(encode_command(Start((SPEC,))))
        target = message["jobs"][0] if place == "jobs" else message["shared"]
        target[name] = value
        with pytest.raises(wire.BadMessage, match=name):
            wire.read_specs(wire.parse_message(json.dumps(message).encode()))


@pytest.mark.parametrize("name", sorted(SPEC.to_json()))
def test_the_agent_refuses_incomplete_specifications(name: str) -> None:
    message = json.loads(encode_command(Start((SPEC,))))
    del message["jobs"][0][name]
    with pytest.raises(wire.BadMessage, match=f"missing {name}"):
        wire.read_specs(message)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_a_bad_message(line: bytes) -> None:
    try:
        message = wire.parse_message(line)
    except wire.BadMessage:
        return
    assert isinstance(message["type"], str)
