"""Lines at the door: what is a call, and how they are cut out of a broker's input."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, get_args

import pytest

from oarpy.client.caller import Size
from oarpy.grid.calls.json_lines import ANSWERS, encode, key_of, read_answer, read_call
from oarpy.grid.calls.parts import (
    BagCompletion,
    ClusterEvent,
    GridPart,
    PartOfTransaction,
    PartRequest,
    PartStarted,
    PlanChanged,
    ProgramFile,
)
from oarpy.grid.calls.table import (
    Abort,
    Amend,
    AnyCall,
    Begin,
    Cancel,
    Commit,
    Describe,
    Estimate,
    EstimateInTurn,
    Events,
    Evict,
    Evictable,
    Idle,
    Measure,
    Offers,
    Prepare,
    PrepareAll,
    Profiled,
    Rates,
    Slots,
    StopMeasuring,
    TakeProfile,
    TellCompletions,
    Waiting,
)
from oarpy.grid.door import session
from oarpy.grid.door.lines import lines_of
from oarpy.model.errors import UsageError

REQUEST = {"user": "ann", "resources": "/core=2", "procs": 2, "walltime": 60.0}
PART = {"name": "7.1", "kind": "queued", "request": REQUEST, "program": "date"}
PREPARE = {"call": "prepare", "key": "k", "transaction": "t", "part": PART, "ttl": 30}


class Pieces:
    """Gives pieces of input, one at a time, and its end."""

    ended = False
    gateway: int | None = None

    def __init__(self, file: int, *pieces: bytes | Size) -> None:
        self._file = file
        self._pieces = [*pieces, b""]

    def fileno(self) -> int:
        """A file that can always be read."""
        return self._file

    def receive(self) -> list[bytes | Size]:
        """The next piece."""
        return [self._pieces.pop(0)]


def cut(*pieces: bytes | Size, longest: int = 10) -> Sequence[bytes | None]:
    with open("/dev/zero", "rb") as zeros:
        return list(lines_of(Pieces(zeros.fileno(), *pieces), longest))  # type: ignore[arg-type]


def test_lines_are_cut_wherever_pieces_end() -> None:
    assert cut(b"one\ntw", b"", longest=10) == [b"one"]
    assert cut(b"o", b"ne\ntw", Size(1, 2), b"o\n\nrest without end") == [b"one", b"two", b""]


def test_a_line_that_is_too_long_is_left_out_as_a_whole() -> None:
    assert cut(b"x" * 11 + b"\nok\n") == [None, b"ok"]
    assert cut(b"x" * 11, b"x" * 30, b"y\nok\n") == [None, b"ok"]
    assert cut(b"x" * 10 + b"\n") == [b"x" * 10]


def test_a_call_becomes_what_it_stands_for() -> None:
    call = read_call(json.dumps(PREPARE).encode())
    assert isinstance(call, Prepare)
    assert call.part == GridPart("7.1", "queued", PartRequest("ann", "/core=2", 2, 60.0), "date")
    assert (call.effect, Describe.effect, Events.effect) == ("changes", "looks", "numbers")


ASKED = PartRequest("ann", "/core=2", 2, 60.0, "default", "mem > 1", "p1", ("besteffort",))
HELD = GridPart("7.1", "claim", ASKED, "date", "/home/ann", "n", 5.0, {"A": "b"})
ASKED_LINE = (
    '{"user":"ann","resources":"/core=2","procs":2,"walltime":60.0,"queue":"default","properties":"mem > 1",'
    '"project":"p1","types":["besteffort"]}'
)
HELD_LINE = (
    f'{{"name":"7.1","kind":"claim","request":{ASKED_LINE},"program":"date","directory":"/home/ann","job_name":"n",'
    '"begin":5.0,"environment":{"A":"b"}}'
)
PROGRAM = ProgramFile("/p", 5, 9, "-q")
PROGRAM_LINE = '{"path":"/p","size":5,"date":9,"arguments":"-q"}'
LINES: list[tuple[AnyCall, str]] = [
    (Describe(key="k"), '"describe"'),
    (Idle(ASKED, 3.0, key="k"), f'"idle","request":{ASKED_LINE},"begin":3.0'),
    (Slots(ASKED, 3.0, 9.0, ["p"], key="k"), f'"slots","request":{ASKED_LINE},"begin":3.0,"end":9.0,"without":["p"]'),
    (
        Offers(ASKED, 5, 9.0, key="k"),
        f'"offers","request":{ASKED_LINE},"tasks":5,"end_by":9.0,"shares":[10,25,50,75,100]',
    ),
    (
        Rates(ASKED, PROGRAM, ("a", "b"), key="k"),
        f'"rates","request":{ASKED_LINE},"program":{PROGRAM_LINE},"sizes":["a","b"]',
    ),
    (Waiting(key="k"), '"waiting"'),
    (
        Estimate([ASKED, "g1"], ["g2"], [ASKED], 2.0, key="k"),
        f'"estimate","requests":[{ASKED_LINE},"g1"],"without":["g2"],"joined":[{ASKED_LINE}],"age":2.0',
    ),
    (EstimateInTurn(ASKED, 3, key="k"), f'"estimate_in_turn","request":{ASKED_LINE},"count":3'),
    (Evictable(ASKED, key="k"), f'"evictable","request":{ASKED_LINE}'),
    (Events(4, key="k"), '"events","after":4'),
    (Prepare("t", HELD, 30.0, key="k"), f'"prepare","transaction":"t","part":{HELD_LINE},"ttl":30.0'),
    (
        PrepareAll([PartOfTransaction("t", HELD)], 30.0, key="k"),
        f'"prepare_all","parts":[{{"transaction":"t","part":{HELD_LINE}}}],"ttl":30.0',
    ),
    (
        Amend("t", "g1", HELD, 30.0, key="k"),
        f'"amend","transaction":"t","instead_of":"g1","part":{HELD_LINE},"ttl":30.0',
    ),
    (Commit("t", 5.0, ["n1"], key="k"), '"commit","transaction":"t","begin":5.0,"hosts":["n1"]'),
    (Abort("t", key="k"), '"abort","transaction":"t"'),
    (Begin("7.1", ["n1"], key="k"), '"begin","part":"7.1","hosts":["n1"]'),
    (
        Begin("7.1", ["n1"], ("n1 0 a 2",), key="k"),
        '"begin","part":"7.1","hosts":["n1"],"map":["n1 0 a 2"]',
    ),
    (
        Measure(ASKED, PROGRAM, ("a",), "/r.sh", "/home/ann", key="k"),
        f'"measure","request":{ASKED_LINE},"program":{PROGRAM_LINE},"sizes":["a"],"script":"/r.sh",'
        '"directory":"/home/ann"',
    ),
    (
        TakeProfile("p", ASKED, "/r.sh", 60.0, "/home/ann", key="k"),
        f'"take_profile","profile":"p","request":{ASKED_LINE},"script":"/r.sh","limit":60.0,"directory":"/home/ann"',
    ),
    (StopMeasuring("m", key="k"), '"stop_measuring","measure":"m"'),
    (Profiled("p", key="k"), '"profiled","profile":"p"'),
    (
        Offers(ASKED, 5, shares=(100,), profile={"1": 9.0}, key="k"),
        f'"offers","request":{ASKED_LINE},"tasks":5,"end_by":null,"shares":[100],"profile":{{"1":9.0}}',
    ),
    (Cancel("7.1", "why", key="k"), '"cancel","part":"7.1","reason":"why"'),
    (
        TellCompletions([BagCompletion("7.1", 9.0, 2)], key="k"),
        '"tell_completions","bags":[{"part":"7.1","completion":9.0,"version":2}]',
    ),
    (Evict("t", ASKED, 2, key="k"), f'"evict","transaction":"t","request":{ASKED_LINE},"procs":2'),
]


@pytest.mark.parametrize(("call", "text"), LINES, ids=[call.name for call, _ in LINES])
def test_a_call_is_always_the_same_line(call: AnyCall, text: str) -> None:
    """Answers are kept by the line of a call: another one would be another call, after an upgrade."""
    line = f'{{"call":{text},"key":"k"}}'.encode()
    assert encode(call) == line
    assert encode(read_call(line)) == line


def test_an_event_of_a_kind_that_is_not_known_is_read_as_one_about_no_part() -> None:
    part = b'{"number":1,"part":"p1","kind":"started","at":5.0,"job":"7","hosts":["n1"],"status":null,"reason":""}'
    new = b'{"number":2,"kind":"plan_changed","at":6.0,"version":4}'
    told = read_answer(Events, b"[" + part + b"," + new + b"]")
    assert told == [PartStarted(1, 5.0, "p1", "7", ("n1",)), ClusterEvent(2, 6.0)]
    assert sorted(json.loads(encode(told[0]))) == sorted(json.loads(part))


def test_a_newer_plan_is_an_event_that_older_brokers_pass_over() -> None:
    line = encode(PlanChanged(3, 7.0, 5))
    assert json.loads(line) == {"kind": "changed", "number": 3, "at": 7.0, "plan": 5}
    assert read_answer(Events, b"[" + line + b"]") == [PlanChanged(3, 7.0, 5)]


def test_every_call_has_a_line_and_is_answered_at_the_door() -> None:
    table = set(get_args(AnyCall))
    assert {type(call) for call, _ in LINES} == table
    assert set(session._ANSWERS) == table
    assert table - set(ANSWERS) == {Commit, Abort, Measure, StopMeasuring, TakeProfile, TellCompletions}


def changed(way: str, value: Any) -> dict[str, Any]:
    """Return the call with another value at ``way``, keys with dots between them."""
    call: dict[str, Any] = json.loads(json.dumps(PREPARE))
    *above, last = way.split(".")
    place = call
    for step in above:
        place = place[step]
    place[last] = value
    return call


BAD = [
    changed("call", "shell"),
    changed("key", ""),
    changed("key", "k" * 129),
    changed("key", "with blank"),
    changed("key", None),
    {name: value for name, value in PREPARE.items() if name != "key"},
    {"call": "describe"},
    changed("ttl", 0),
    changed("ttl", 1e9),
    changed("ttl", "30"),
    changed("sql", "DROP TABLE jobs"),
    changed("part.kind", "root"),
    changed("part.directory", "relative"),
    changed("part.directory", "/a\nb"),
    changed("part.program", "a\0b"),
    changed("part.begin", -1),
    changed("part.environment", {"OARPY_UMASK": "0"}),
    changed("part.environment", {"A=B": "c"}),
    changed("part.environment", {"A": 1}),
    changed("part.request.procs", 0),
    changed("part.request.procs", 1.5),
    changed("part.request.procs", True),
    changed("part.request.walltime", -1),
    changed("part.request.user", ""),
    changed("part.request.types", "besteffort"),
    changed("part.request.uid", 0),
]


@pytest.mark.parametrize("call", BAD, ids=lambda call: json.dumps(call)[:60])
def test_what_is_not_exactly_a_call_is_refused(call: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="no call: "):
        read_call(json.dumps(call).encode())


@pytest.mark.parametrize("line", [b"", b"[" * 100_000, b"\xff", b'"\\ud800"', b"null", b"{}", b"1e999", b"NaN"])
def test_what_is_no_object_is_refused(line: bytes) -> None:
    with pytest.raises(UsageError, match="no call: "):
        read_call(line)
    assert key_of(line) == ""


def test_a_refused_line_is_answered_under_its_key() -> None:
    assert key_of(b'{"key": "k7", "call": 3}') == "k7"
    assert key_of(b'{"key": 7}') == ""


@pytest.mark.parametrize("line", [b'{"call": "cancel", "key": "k", "part": "a", "part": "b"}', None])
def test_a_key_stands_once_in_an_object(line: bytes | None) -> None:
    """Of two values, what reads a line before us may take the other one."""
    if line is None:
        line = json.dumps(PREPARE).encode().replace(b'"walltime":', b'"walltime": 1, "walltime":', 1)
    with pytest.raises(UsageError, match=r"no call: Object has the key `(part|walltime)` twice"):
        read_call(line)
