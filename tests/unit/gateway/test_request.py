"""What a request must be, exactly."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarpy.wire.frames import Malformed, read_header
from oarpy.wire.openings import Request, read_request

GOOD: dict[str, Any] = {
    "version": 1,
    "command": "oarstat",
    "arguments": ["-j", "caf\udce9"],
    "directory": "/tmp",
    "environment": {"A": "1"},
    "terminal": {"input": True, "output": False, "errors": True, "columns": 120},
}


def encoded(message: object) -> bytes:
    return json.dumps(message).encode("ascii")


def test_a_request() -> None:
    found = read_request(encoded(GOOD))
    assert (found.command, found.arguments, found.directory) == ("oarstat", ("-j", "caf\udce9"), "/tmp")
    assert found.environment == {"A": "1"}
    assert (found.terminal.input, found.terminal.output, found.terminal.columns) == (True, False, 120)
    assert read_request(encoded({**GOOD, "directory": None})).directory is None


WRONG = [
    {"version": 2},
    {"version": "1"},
    {"version": True},
    {"version": 1.0},
    {"command": None},
    {"command": "a\0"},
    {"arguments": "x"},
    {"arguments": [None]},
    {"arguments": [["x"]]},
    {"arguments": ["\ud83d"]},
    {"directory": 7},
    {"environment": []},
    {"environment": {"A": 1}},
    {"environment": {"A\0": "1"}},
    {"terminal": None},
    {"terminal": {**GOOD["terminal"], "columns": 0}},
    {"terminal": {**GOOD["terminal"], "columns": True}},
    {"terminal": {**GOOD["terminal"], "input": 1}},
    {"terminal": {"columns": 80}},
    {"uid": 0},
]


@pytest.mark.parametrize("change", WRONG)
def test_what_is_none(change: dict[str, object]) -> None:
    with pytest.raises(Malformed):
        read_request(encoded({**GOOD, **change}))


@pytest.mark.parametrize("key", GOOD)
def test_nothing_may_be_missing(key: str) -> None:
    with pytest.raises(Malformed):
        read_request(encoded({name: value for name, value in GOOD.items() if name != key}))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from([*GOOD, "x"]), JSON), st.booleans())
def test_any_values_make_a_request_or_are_refused(values: dict[str, object], complete: bool) -> None:
    try:
        found = read_request(encoded({**GOOD, **values} if complete else values))
    except Malformed:
        return
    assert isinstance(found, Request)
    assert all(type(word) is str and "\0" not in word for word in found.arguments)


@given(st.binary(max_size=200))
def test_any_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(Malformed):
        read_request(data)


@pytest.mark.parametrize("deep", ["[" * 100_000, '{"a":' * 100_000])
def test_depth_is_no_way_in(deep: str) -> None:
    with pytest.raises(Malformed):
        read_request(deep.encode())


@given(st.binary(min_size=5, max_size=5))
def test_a_header_is_within_bounds(data: bytes) -> None:
    try:
        kind, length = read_header(data, 1000)
    except Malformed:
        return
    assert 1 <= kind <= 4
    assert length <= 1000
