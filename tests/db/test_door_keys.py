"""A call is done once for a key, by whatever session and however often it is asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from oarpy.configuration import Configuration, load
from oarpy.grid.calls.parts import PreparedPart
from oarpy.grid.calls.table import Cancel, Events, Prepare, Waiting
from oarpy.grid.door import session
from oarpy.grid.door.call_context import CallContext
from oarpy.grid.door.session import DoorSession
from oarpy.model.errors import NotFound
from oarpy.modules.accounting import Accounting
from oarpy.modules.loop.module import run
from tests.harness.sample_cluster import Connection

pytestmark = [pytest.mark.db, pytest.mark.kept]

Doors = Callable[..., DoorSession]
ANSWERS: dict[Any, Any] = session._ANSWERS
SETTLES: dict[Any, Any] = session._SETTLES

CANCEL = {"call": "cancel", "key": "k1", "part": "part1"}
QUEUE = "INSERT INTO queues (queue_name, priority) VALUES (%s, 1)"


@pytest.fixture
def doors(connection: Connection, cluster_environment: dict[str, str]) -> Iterator[Doors]:
    """Opens sessions of brokers."""
    settings = load(cluster_environment)
    with ExitStack() as stack:
        yield lambda broker="campus": stack.enter_context(closing(DoorSession(broker, settings)))


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What calls did; cancelling a part adds a queue of its name."""
    parts: list[str] = []

    def cancel(visit: CallContext, call: Cancel) -> None:
        visit.connection.execute(QUEUE, [call.part])
        if call.reason:
            raise NotFound(call.reason)
        parts.append(call.part)

    monkeypatch.setitem(ANSWERS, Cancel, cancel)
    return parts


def ask(door: DoorSession, call: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a call."""
    answer: dict[str, Any] = json.loads(door.reply(json.dumps(call).encode()))
    return answer


def test_a_key_is_done_once(doors: Doors, done: list[str]) -> None:
    here, there = doors(), doors()
    assert [ask(one, CANCEL) for one in (here, here, there)] == [{"key": "k1", "answer": None}] * 3
    assert done == ["part1"]
    assert ask(here, {**CANCEL, "key": "k2", "part": "part2"}) == {"key": "k2", "answer": None}
    assert ask(doors("lyon"), {**CANCEL, "part": "part3"}) == {"key": "k1", "answer": None}
    assert done == ["part1", "part2", "part3"]


def test_a_key_is_that_of_one_call(doors: Doors, done: list[str]) -> None:
    door = doors()
    ask(door, CANCEL)
    error = ask(door, {**CANCEL, "part": "part8"})["error"]
    assert error["message"] == "the key 'k1' is that of another call"
    assert done == ["part1"]


def test_a_refused_call_leaves_nothing_and_may_be_asked_again(
    doors: Doors, done: list[str], connection: Connection
) -> None:
    door = doors()
    refused = ask(door, {**CANCEL, "reason": "no such part"})
    assert refused == {"key": "k1", "error": {"code": "not_found", "message": "no such part", "hint": "", "status": 4}}
    assert connection.execute("SELECT FROM queues WHERE queue_name = 'part1'").fetchall() == []
    assert ask(door, CANCEL) == {"key": "k1", "answer": None}
    assert done == ["part1"]


def test_a_key_asked_twice_at_once_is_done_once(doors: Doors, done: list[str]) -> None:
    four = [doors() for _ in range(4)]
    answers: list[dict[str, Any]] = []
    threads = [threading.Thread(target=lambda door=door: answers.append(ask(door, CANCEL))) for door in four]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert answers == [{"key": "k1", "answer": None}] * 4
    assert done == ["part1"]


def test_what_only_looks_changes_nothing(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(visit: CallContext, call: Waiting | Events) -> list[Any]:
        visit.connection.execute(QUEUE, ["new"])
        return []

    monkeypatch.setitem(ANSWERS, Waiting, write)
    monkeypatch.setitem(ANSWERS, Events, write)
    door = doors()
    error = ask(door, {"call": "waiting", "key": "k"})["error"]
    assert error["message"] == "the database refused: cannot execute INSERT in a read-only transaction"
    # events are numbered when they are first told
    assert ask(door, {"call": "events", "key": "k", "after": 0}) == {"key": "k", "answer": []}


def test_what_settles_a_call_has_the_last_word_each_time(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = [("n1",), ("n1", "n2")]
    monkeypatch.setitem(ANSWERS, Prepare, lambda visit, call: PreparedPart("12"))
    monkeypatch.setitem(SETTLES, Prepare, lambda visit, call, kept: PreparedPart(kept.job, hosts.pop(0)))
    request = {"user": "ann", "resources": "/core=1", "procs": 1, "walltime": 60}
    part = {"name": "part1", "kind": "claim", "request": request}
    call = {"call": "prepare", "key": "k", "transaction": "t", "part": part, "ttl": 30}
    door = doors()
    assert [ask(door, call)["answer"]["hosts"] for _ in range(2)] == [["n1"], ["n1", "n2"]]


def test_keys_are_forgotten_after_a_day(doors: Doors, done: list[str], connection: Connection) -> None:
    door = doors()
    ask(door, CANCEL)
    connection.execute("INSERT INTO door_transactions (broker, transaction, state) VALUES ('campus', 't', 'Aborted')")
    for hours, left in ((23, 1), (25, 0)):
        later = datetime.now(UTC) + timedelta(hours=hours)
        run(Accounting(Configuration()), connection, later)
        counts = "SELECT (SELECT count(*) FROM door_calls), (SELECT count(*) FROM door_transactions)"
        assert connection.execute(counts).fetchall() == [(left, left)]
