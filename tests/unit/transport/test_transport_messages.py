"""Commands and reports on the wire: what is sent is what arrives, and what is malformed is one clear error."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarpy.wire.frames import Malformed
from oarpy.wire.jobs import JobKey, JobSpec, UnreadableSpec
from oarpy.wire.messages import (
    COMMANDS,
    Admit,
    AgentError,
    ChangeWalltime,
    Check,
    Checked,
    CheckHealth,
    Checkpointed,
    Clean,
    Cleaned,
    Command,
    Ended,
    Forget,
    Gpus,
    GpuUse,
    Health,
    JobReport,
    Kill,
    Knocked,
    LauncherEnded,
    Load,
    MeasuredGpu,
    MeasureGpus,
    Ping,
    Pong,
    Ready,
    Recall,
    Recalled,
    RecalledJob,
    Refused,
    Release,
    Report,
    Resize,
    Resized,
    Resume,
    Resumed,
    RunLaunchers,
    RunScript,
    ScriptEnded,
    Signal,
    Start,
    Started,
    Stuck,
    Suspend,
    Suspended,
    TellGpus,
    TellLoad,
    Terminate,
    WalltimeChanged,
    Welcome,
    decode_command,
    decode_reports,
    encode_command,
    encode_reports,
)
from oarpy.wire.messages import REPORTS as REPORTS_BY_WORD

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
    checkpoint=10,
    checkpoint_signal=12,
)

REPORTS: list[tuple[dict[str, object], Report]] = [
    ({"type": "knock", "token": "0123456789abcdef" * 2}, Knocked("0123456789abcdef" * 2)),
    (
        {
            "type": "ready",
            "pid": 5,
            "boot_id": "b",
            "incarnation": "b:1",
            "clock": 5,
            "jobs": [{"key": [1, 1], "state": "running"}],
            "highest": 7,
        },
        Ready(5, "b", "b:1", 5.0, (JobReport(KEYS[0], "running"),), 7),
    ),
    (
        {
            "type": "recalled",
            "jobs": [
                {
                    "key": [1, 1],
                    "user": "ann",
                    "resources": 2,
                    "start": 1.0,
                    "end": None,
                    "status": None,
                    "reason": "",
                }
            ],
        },
        Recalled((RecalledJob(KEYS[0], "ann", 2, 1.0),)),
    ),
    ({"type": "started", "key": [1, 1], "start": 1.5}, Started(KEYS[0], 1.5)),
    ({"type": "suspended", "key": [1, 1], "at": 1.5}, Suspended(KEYS[0], 1.5)),
    ({"type": "checkpoint", "key": [1, 1], "at": 1.5}, Checkpointed(KEYS[0], 1.5)),
    ({"type": "resumed", "key": [1, 1], "at": 1.5}, Resumed(KEYS[0], 1.5)),
    (
        {
            "type": "ended",
            "key": [1, 1],
            "status": None,
            "reason": "lost",
            "start": None,
            "end": 2,
            "detail": "d",
            "left": 1,
            "memory_kills": 0,
            "cpu_seconds": 1.5,
            "memory_peak": None,
            "by_node": True,
        },
        Ended(KEYS[0], None, "lost", None, 2.0, "d", 1, 0, 1.5, by_node=True),
    ),
    ({"type": "refused", "key": [1, 1], "reason": "R", "detail": "d"}, Refused(KEYS[0], "R", "d")),
    ({"type": "stuck", "key": [1, 1], "detail": "d", "place": "/p"}, Stuck(KEYS[0], "d", "/p")),
    (
        {
            "type": "cleaned",
            "key": [1, 1],
            "killed": 3,
            "left": 0,
            "memory_kills": 0,
            "cpu_seconds": None,
            "memory_peak": 4096,
        },
        Cleaned(KEYS[0], 3, 0, 0, None, 4096),
    ),
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
        with pytest.raises(Malformed):
            decode_reports(json.dumps(without).encode())
        wrong: object = {"an": "object"}
        with pytest.raises(Malformed):
            decode_reports(json.dumps({**entry, name: wrong}).encode())
        if isinstance(entry[name], int) and not isinstance(entry[name], bool):
            with pytest.raises(Malformed):
                decode_reports(json.dumps({**entry, name: True}).encode())


@pytest.mark.parametrize("token", ["", "0" * 31, "0" * 33, "A" * 32, "0" * 31 + "\n", "../" + "0" * 29, "\u0660" * 32])
def test_a_knock_has_a_token_of_the_right_form(token: str) -> None:
    with pytest.raises(Malformed):
        decode_reports(json.dumps({"type": "knock", "token": token}).encode())


@pytest.mark.parametrize("line", [b"", b"{", b"\xff", b"7", b"[7]", b'{"type":"x"}', b'{"type":["x"]}', b"[" * 100_000])
def test_garbage_is_one_error_line(line: bytes) -> None:
    with pytest.raises(Malformed) as caught:
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
    except Malformed:
        return
    assert len(reports) == (len(value) if isinstance(value, list) else 1)


def test_the_agent_reads_a_start_as_it_was_written() -> None:
    start = Start((SPEC, SPEC.replace(job=8, array_index=2)), "b:1")
    line = encode_command(start)
    jobs = json.loads(line)["jobs"]
    assert jobs["shared"]["environment"] == SPEC.environment
    assert set(jobs["each"][0]) == {"job", "array_index"}
    assert decode_command(line) == start


def test_a_single_job_is_written_whole() -> None:
    line = encode_command(Start((SPEC,)))
    assert json.loads(line)["jobs"]["shared"] == {}
    assert decode_command(line) == Start((SPEC,))


COMMANDS_AS_WRITTEN: list[tuple[Command, dict[str, object]]] = [
    (Kill(KEYS), {"type": "kill", "grace": None, "reason": ""}),
    (Kill(KEYS, 0), {"type": "kill", "grace": 0, "reason": ""}),
    (Signal(KEYS, 12), {"type": "signal", "signal": 12}),
    (
        Admit(KEYS, "ann", "ssh-ed25519 AAAA", "n1"),
        {"type": "admit", "user": "ann", "public_key": "ssh-ed25519 AAAA", "node": "n1"},
    ),
    (Suspend(KEYS), {"type": "suspend"}),
    (Resume(KEYS), {"type": "resume"}),
    (ChangeWalltime(KEYS, 60), {"type": "walltime", "seconds": 60}),
    (
        Resize(KEYS, 5, "ann", ("n1", "n2"), ("host = 'n1'",), True, (0, 2)),
        {
            "type": "resize",
            "gpus": [0, 2],
            "order": 5,
            "user": "ann",
            "nodes": ["n1", "n2"],
            "resources": ["host = 'n1'"],
            "enters": True,
        },
    ),
    (Clean(KEYS), {"type": "clean", "grace": 0}),
    (Clean(KEYS, 20), {"type": "clean", "grace": 20}),
    (Terminate(KEYS), {"type": "terminate"}),
    (Forget(KEYS), {"type": "forget"}),
    (Release(KEYS), {"type": "release"}),
]


@pytest.mark.parametrize(("command", "expected"), COMMANDS_AS_WRITTEN)
def test_the_agent_reads_commands_as_they_were_written(command: Command, expected: dict[str, object]) -> None:
    line = encode_command(command)
    assert json.loads(line) == {**expected, "jobs": [[1, 1], [12, 3]]}
    assert decode_command(line) == command


def test_a_job_named_twice_counts_once() -> None:
    assert decode_command(b'{"type":"suspend","jobs":[[1,1],[12,3],[1,1]]}') == Suspend(KEYS)


def test_ping() -> None:
    assert json.loads(encode_command(Ping("t"))) == {"type": "ping", "token": "t"}


EVERY = [
    *(command for command, _ in COMMANDS_AS_WRITTEN),
    *(report for _, report in REPORTS),
    Start((SPEC,), "b:1"),
    Welcome(SPEC, True),
    RunScript("epilogue", "/bin/true", 1.5, (SPEC,), True),
    Ping("t"),
    Check(),
    TellLoad(),
    TellGpus(),
    Gpus(8),
    MeasureGpus((0, 3)),
    CheckHealth("/usr/local/sbin/check", 60.0),
    Health("the disk is full"),
    GpuUse((MeasuredGpu(0, 50, 1 << 30, None),)),
    Recall(1.5),
    Load(0.25, 1024, 3600),
    Checked("no room"),
    WalltimeChanged(KEYS[0], 60),
    Resized(KEYS[0], 5, "no room"),
    ScriptEnded(KEYS[0], "prologue", "NO_SUCH_USER", "d"),
    RunLaunchers((SPEC,)),
    LauncherEnded(KEYS[0], "d"),
]


def test_every_message_of_the_table_is_tried_here() -> None:
    assert {type(message) for message in EVERY} == {*COMMANDS.values(), *REPORTS_BY_WORD.values()}


@pytest.mark.parametrize("message", EVERY, ids=[type(message).__name__ for message in EVERY])
def test_what_is_sent_is_what_arrives(message: Command | Report) -> None:
    if isinstance(message, Report):
        assert decode_reports(encode_reports([message, message])) == [message, message]
    else:
        assert decode_command(encode_command(message)) == message


@pytest.mark.parametrize("message", EVERY, ids=[type(message).__name__ for message in EVERY])
def test_a_message_has_its_fields_and_no_other(message: Command | Report) -> None:
    def decode(entry: dict[str, object]) -> object:
        line = json.dumps(entry).encode()
        return decode_reports(line) if isinstance(message, Report) else decode_command(line)

    encoded = encode_reports([message])[1:-2] if isinstance(message, Report) else encode_command(message)
    entry: dict[str, object] = json.loads(encoded)
    with pytest.raises(Malformed, match="surprise"):
        decode({**entry, "surprise": 1})
    for name in entry:
        with pytest.raises(Malformed):
            decode({other: value for other, value in entry.items() if other != name})
        with pytest.raises(Malformed):
            decode({**entry, name: {"an": "object"}})


def test_a_message_does_not_change() -> None:
    with pytest.raises(AttributeError):
        SPEC.job = 9  # type: ignore[misc]
    assert SPEC.replace(job=9) != SPEC
    assert SPEC.replace(job=9).replace(job=SPEC.job) == SPEC


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
    ("checkpoint", -1),
    ("checkpoint_signal", 0),
    ("checkpoint_signal", 65),
    ("kill_grace", -0.1),
    ("kill_grace", float("nan")),
    ("kill_grace", float("inf")),
    ("start_deadline", "soon"),
    ("login_shell", 1),
    ("allow_root", "yes"),
    ("surprise", 1),
]


def problem_of(message: dict[str, object]) -> str:
    """What is said of the only job of a start: its name is known, or nothing is."""
    try:
        start = decode_command(json.dumps(message).encode())
    except Malformed as error:
        return str(error)
    assert isinstance(start, Start)
    (spec,) = start.jobs
    assert isinstance(spec, UnreadableSpec)
    assert spec.key == SPEC.key
    return spec.problem


@pytest.mark.parametrize(("name", "value"), BAD_FIELDS)
def test_the_agent_refuses_bad_specifications(name: str, value: object) -> None:
    for place in ("each", "shared"):
        message = json.loads(encode_command(Start((SPEC,))))
        if place == "shared":
            message["jobs"]["each"][0].pop(name, None)
            message["jobs"]["shared"][name] = value
        else:
            message["jobs"]["each"][0][name] = value
        assert "jobs" in problem_of(message) if name in ("job", "attempt") else name in problem_of(message)


@pytest.mark.parametrize("name", sorted(JobSpec.CHECKS))
def test_the_agent_refuses_incomplete_specifications(name: str) -> None:
    message = json.loads(encode_command(Start((SPEC,))))
    del message["jobs"]["each"][0][name]
    assert "jobs" in problem_of(message) if name in ("job", "attempt") else problem_of(message) == f"missing {name}"


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_a_bad_message(line: bytes) -> None:
    try:
        command = decode_command(line)
    except Malformed:
        return
    assert isinstance(command, Command)
