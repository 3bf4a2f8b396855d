"""A launcher's job goes on when its connection is lost: what is open is said again, what was told is not told twice."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from typing import Any

import pytest

from oarpy.negotiation.exchange import Message
from oarpy.negotiation.line_streams import LineStreams
from oarpy.negotiation.negotiated_job import MessageRefused, NegotiatedJob, NotConnected
from oarpy.negotiation.profiles import BusyHosts

TIMEOUT = 20.0


class Server:
    """The other side: each connection of the launcher is one that the test speaks over."""

    def __init__(self) -> None:
        self._listening = socket.socketpair()
        self._ends: list[socket.socket] = []
        self._files: list[Any] = []
        self._answering = ThreadPoolExecutor(1)
        self.status = 1
        self.fails = 0

    def streams(self) -> LineStreams:
        """Return a connection, as the launcher has it."""
        if self.fails:
            self.fails -= 1
            raise BlockingIOError
        launcher, server = socket.socketpair()
        socket.send_fds(self._listening[0], [b"c"], [server.fileno()])
        server.close()
        found = _Streams(os.dup(launcher.fileno()), os.dup(launcher.fileno()), lambda: self.status)
        launcher.close()
        return found

    def accept(self) -> None:
        """Go on with the next connection."""
        self._listening[1].settimeout(TIMEOUT)
        _, (descriptor, *_), _, _ = socket.recv_fds(self._listening[1], 1, 1)
        self._ends.append(socket.socket(fileno=descriptor))
        self._ends[-1].settimeout(TIMEOUT)
        self._files.append(self._ends[-1].makefile("r", encoding="utf-8"))

    def answer(self, word: str, **fields: object) -> Future[dict[str, Any]]:
        """Wait for something and answer it; the result is what was heard."""
        return self._answering.submit(self._answer, word, fields)

    def _answer(self, word: str, fields: dict[str, Any]) -> dict[str, Any]:
        heard = self.hear()
        self.say(word, **fields)
        return heard

    def close(self) -> None:
        """Leave nothing open."""
        self._answering.shutdown()
        for one in (*self._listening, *self._ends, *self._files):
            one.close()

    def hang_up(self) -> None:
        """Let the connection be lost."""
        with suppress(OSError):
            self._ends[-1].shutdown(socket.SHUT_RDWR)

    def say(self, word: str, **fields: object) -> None:
        """Say something to the launcher."""
        self.say_line(json.dumps({"message": word, **fields}).encode() + b"\n")

    def say_line(self, line: bytes) -> None:
        """Say something, whatever it is."""
        self._ends[-1].sendall(line)

    def hear(self) -> dict[str, Any]:
        """Return what the launcher says next."""
        found: dict[str, Any] = json.loads(self._files[-1].readline())
        return found


class _Streams(LineStreams):
    def __init__(self, source: int, sink: int, status: Callable[[], int]) -> None:
        super().__init__(source, sink)
        self._status = status

    def hang_up(self) -> None:
        """A socket has one end for both directions."""
        if self._sink >= 0:
            with socket.socket(fileno=os.dup(self._sink)) as both, suppress(OSError):
                both.shutdown(socket.SHUT_WR)
        super().hang_up()

    def end(self) -> int:
        super().end()
        return self._status()


@contextmanager
def subscribed(**settings: Any) -> Iterator[tuple[NegotiatedJob, Server]]:
    """A job that was shown its first view."""
    with closing(Server()) as server, NegotiatedJob(server.streams, **settings) as job:
        server.accept()
        heard = server.answer("subscribed", job=7, token="secret")
        assert job.subscribe(["-n", "x"], exact=True) == 7
        assert heard.result(TIMEOUT) == {"message": "subscribe", "arguments": ["-n", "x"], "exact": True}
        server.say("changeNotify", serial=1, changes={"red": [10, 5, 2], "blue": [10]})
        try:
            yield job, server
        finally:
            server.status = 5
            server.hang_up()


def test_it_speaks_and_keeps_what_it_is_told() -> None:
    with subscribed() as (job, server):
        first = job.next(TIMEOUT)
        assert first is not None
        assert (job.id, job.token, job.serial) == (7, "secret", 1)
        assert job.view["red"].same(BusyHosts.of([10, 5, 2]), 10)
        tag = job.request({"red": 3}, 60)
        assert server.hear() == {"message": "request", "tag": tag, "hosts": {"red": 3}, "walltime": 60, "serial": 1}
        server.say("startNotify", tag=tag, hosts={"red": 3}, names={"red": ["r1", "r2", "r3"]}, until=70)
        assert [m["message"] for m in take(job, 1)] == ["startNotify"]
        assert (job.hosts, job.until) == ({"red": ["r1", "r2", "r3"]}, 70)
        more = job.extend({"blue": 1}, "revocable")
        assert server.hear() == {"message": "extend", "tag": more, "hosts": {"blue": 1}, "kind": "revocable"}
        server.say("granted", tag=more, kind="revocable", hosts={"blue": 1}, names={"blue": ["b1"]})
        take(job, 1)
        assert job.hosts == {"red": ["r1", "r2", "r3"], "blue": ["b1"]}
        job.release(["r3", "b1"])
        assert server.hear() == {"message": "release", "names": ["r3", "b1"]}
        server.say("released", names=["r3", "b1"])
        take(job, 1)
        assert job.hosts == {"red": ["r1", "r2"]}
        job.done()
        server.say("ended", reason="done")
        assert [m["message"] for m in job.messages(TIMEOUT)] == ["ended"]
        assert job.ended == "done"


def test_what_is_open_is_said_again_over_a_new_connection() -> None:
    with subscribed() as (job, server):
        job.next(TIMEOUT)
        server.hang_up()
        tag = job.request({"red": 3}, 60)
        server.accept()
        assert server.hear() == {"message": "attach", "job": 7, "serial": 1}
        server.say("attached", job=7, state="Submitted", tag=None, serial=1)
        assert server.hear()["tag"] == tag
        estimate = {"tag": tag, "start": 15, "verdict": "later", "reason": "later"}
        server.say("estimate", **estimate)
        assert job.next(TIMEOUT) == {"message": "estimate", **estimate}
        server.hang_up()
        server.accept()
        server.hear()
        server.say("attached", job=7, state="Waiting", tag=tag, serial=2)
        server.say("changeNotify", serial=2, changes={"red": [12, 3, 1]})
        server.say("estimate", **estimate)
        server.say("startNotify", tag=tag, hosts={"red": 3}, names={"red": ["r1", "r2", "r3"]}, until=70)
        assert [m["message"] for m in take(job, 2)] == ["changeNotify", "startNotify"]
        job.done()
        assert server.hear() == {"message": "done"}
        server.hang_up()
        server.accept()
        assert server.hear()["serial"] == 2
        server.say("attached", job=7, state="Started", tag=tag, serial=2)
        assert server.hear() == {"message": "done"}
        server.say("ended", reason="done")
        assert take(job, 1)[0]["message"] == "ended"


def test_what_was_granted_and_taken_meanwhile_is_told_as_that() -> None:
    with subscribed() as (job, server):
        job.next(TIMEOUT)
        server.say("startNotify", tag=1, hosts={"red": 3}, names={"red": ["r1", "r2", "r3"]}, until=70)
        take(job, 1)
        tag = job.extend({"blue": 1})
        server.hear()
        server.hang_up()
        server.accept()
        server.hear()
        server.say("attached", job=7, state="Started", tag=1, serial=1)
        server.say("startNotify", tag=1, hosts={"red": 3}, names={"red": ["r1", "r2"], "blue": ["b1"]}, until=70)
        assert take(job, 2) == [
            {"message": "granted", "tag": tag, "kind": "firm", "hosts": {"blue": 1}, "names": {"blue": ["b1"]}},
            {"message": "released", "names": ["r3"]},
        ]
        assert job.hosts == {"red": ["r1", "r2"], "blue": ["b1"]}
        server.say("granted", tag=tag, kind="firm", hosts={"blue": 1}, names={"blue": ["b1"]})
        server.say("released", names=["r3"])
        for _ in range(2):
            server.say("reclaim", names=["b1"], by=60)
        server.say("reclaim", names=["b1"], by=61)
        assert [message["by"] for message in take(job, 2)] == [60, 61]
        job.release(["r2"])
        assert server.hear()["message"] == "release"
        server.hang_up()
        server.accept()
        server.hear()
        server.say("attached", job=7, state="Started", tag=1, serial=1)
        server.say("startNotify", tag=1, hosts={"red": 3}, names={"red": ["r1", "r2"], "blue": ["b1"]}, until=70)
        assert server.hear() == {"message": "release", "names": ["r2"]}


def test_views_do_not_queue_up_and_signs_of_life_are_given() -> None:
    with subscribed() as (job, server):
        server.say("changeNotify", serial=3, changes={"red": [12]}, cinfo=["red"])
        server.say("ping")
        assert server.hear() == {"message": "pong"}
        assert take(job, 1) == [
            {"message": "changeNotify", "serial": 3, "changes": {"red": [12], "blue": [10]}, "cinfo": ["red"]}
        ]
        job.keep()
        assert server.hear() == {"message": "keep", "serial": 3}


def test_refusals_and_lost_connections_are_errors() -> None:
    with closing(Server()) as server, NegotiatedJob(server.streams) as job:
        server.accept()
        server.answer("refused", of="subscribe", code=3, reason="no")
        with pytest.raises(MessageRefused, match="no") as found:
            job.subscribe()
        assert found.value.code == 3
        server.hang_up()
        with pytest.raises(NotConnected, match="before there was a job"):
            job.next(TIMEOUT)
    with subscribed() as (job, server):
        job.next(TIMEOUT)
        server.status = 5
        server.hang_up()
        with pytest.raises(NotConnected, match="does not let"):
            job.next(TIMEOUT)


def test_nonsense_and_a_lack_of_processes_are_lost_connections() -> None:
    with subscribed() as (job, server):
        job.next(TIMEOUT)
        server.fails = 2
        server.say_line(b"Segmentation fault\n")
        server.accept()
        assert server.fails == 0
        assert server.hear() == {"message": "attach", "job": 7, "serial": 1}
        server.say("attached", job=7, state="Submitted", tag=None, serial=1)
        server.say("ended", reason="lost")
        assert take(job, 1) == [{"message": "ended", "reason": "lost"}]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_function_that_fails_ends_the_connection() -> None:
    def hear(message: Message) -> None:
        raise RuntimeError(message["message"])

    with subscribed(hear=hear) as (job, _server), pytest.raises(NotConnected, match="has failed"):
        job.next(TIMEOUT)


def test_messages_can_be_heard_by_a_function() -> None:
    heard: list[str] = []
    with subscribed(hear=lambda message: heard.append(message["message"])) as (job, server):
        server.say("ended", reason="deleted")
        assert list(job.messages(TIMEOUT)) == []
        assert heard == ["changeNotify", "ended"]
        assert job.ended == "deleted"


def take(job: NegotiatedJob, number: int) -> list[dict[str, Any]]:
    """Return the next messages."""
    found = [job.next(TIMEOUT) for _ in range(number)]
    assert None not in found
    return [one for one in found if one is not None]
