"""A job that chooses its hosts, as an object for its launcher, the program that speaks for it.

::

    with NegotiatedJob() as job:
        job.subscribe(arguments=["-n", "sweep"])
        for message in job.messages():
            if message["message"] == "changeNotify":
                job.request({"red": 4}, walltime=600)
            elif message["message"] == "startNotify":
                work(message["names"])
                job.done()

A thread receives the messages of the server, gives signs of life, and attaches again when the connection is lost. Lost
messages are sent again, and no message is passed on twice: the program does not notice the loss.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Union

from oarpy.negotiation.exchange import Exchange, Message, flat, joined, merged, without
from oarpy.negotiation.lasting_connection import LastingConnection
from oarpy.negotiation.line_streams import LineStreams, usual_streams
from oarpy.negotiation.messages import FIRM
from oarpy.negotiation.profiles import BusyHosts, Time


class MessageRefused(Exception):
    """The server refuses a message: ``code`` is that of the message ``refused``, ``reason`` its line."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason


class NotConnected(Exception):
    """The connection to the server is lost and does not come again."""


class NegotiatedJob:
    """One job, from :meth:`subscribe` or :meth:`attach` to its end.

    ``view`` is the view shown to the launcher, as far as it took the messages: profiles by cluster. ``serial`` is the
    number of that view. ``hosts`` are the names of the hosts that the job holds, by cluster. ``until`` is the end of
    its walltime (Unix time).

    If given, ``hear`` is called with each message, in a thread of its own; otherwise :meth:`messages` yields them. A
    lost connection is given up after ``patience`` seconds (None: never).
    """

    def __init__(
        self,
        streams: Callable[[], LineStreams] = usual_streams,
        hear: Callable[[Message], None] | None = None,
        patience: float | None = None,
    ) -> None:
        self.view: dict[str, BusyHosts] = {}
        self.serial: int | None = None
        self.hosts: dict[str, list[str]] = {}
        self.until: float | None = None
        self._told = hear
        self._exchange = Exchange()
        self._tags = 0
        self._changed = threading.Condition()
        self._queue: deque[Message] = deque()
        self._awaited: tuple[str, str] | None = None
        self._answers: list[Message] = []
        self._connection = LastingConnection(streams, self._exchange, self._hear, self._note, patience)
        self._connection.start()

    def __enter__(self) -> NegotiatedJob:
        """Return the job."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave it."""
        self.close()

    @property
    def id(self) -> int | None:
        """The job's id, once it is known."""
        return self._exchange.job

    @property
    def token(self) -> str:
        """The token that lets others speak for the job while it lives; only its subscriber knows it."""
        return self._exchange.token

    @property
    def ended(self) -> str | None:
        """Why the job is over: the reason of ``ended``; None while it is not."""
        return self._exchange.ended

    # Messages to the server

    def subscribe(self, arguments: Sequence[str] = (), **fields: Any) -> int:
        """Make a job of these arguments of ``oarsub`` and return its id; ``fields``: as ``subscribe`` has them.

        Raises :class:`MessageRefused` and :class:`NotConnected`.
        """
        answer = self._ask({"message": "subscribe", "arguments": list(arguments), **fields}, "subscribed")
        return int(answer["job"])

    def attach(self, job: int | None = None, token: str = "", serial: int | None = None) -> Message:
        """Go on with a job, that of ``OAR_JOB_ID`` if none is named, and return the answer.

        Raises :class:`MessageRefused` and :class:`NotConnected`.
        """
        message: Message = {"message": "attach", "job": int(os.environ["OAR_JOB_ID"]) if job is None else job}
        if token:
            message["token"] = token
        if serial is not None:
            message["serial"] = self.serial = serial
        answer = self._ask(message, "attached")
        if isinstance(answer["tag"], int):
            self._tags = max(self._tags, answer["tag"])
        return answer

    def clusters(self, names: Sequence[str] | None = None) -> Message:
        """Return ``clustersInfo`` of these clusters, or of all. Raises as :meth:`attach`."""
        named = {} if names is None else {"clusters": list(names)}
        return self._ask({"message": "listClustersInfo", **named}, "clustersInfo")

    def request(
        self, hosts: Mapping[str, int], walltime: Time, tag: Union[int, str, None] = None, serial: int | None = None
    ) -> Union[int, str]:
        """Ask for hosts by cluster for ``walltime`` seconds, in place of the request before; return the tag.

        ``serial`` is the view that this answers, by default the one taken last. Messages bring the answer.
        """
        seconds = walltime if isinstance(walltime, int) else float(walltime)  # durations of launchers may be fractions
        message: Message = {"message": "request", "tag": self._tag(tag), "hosts": dict(hosts), "walltime": seconds}
        serial = self.serial if serial is None else serial
        self._say(message if serial is None else {**message, "serial": serial})
        return message["tag"]  # type: ignore[no-any-return]

    def keep(self, serial: int | None = None) -> None:
        """Confirm a view, by default the one taken last, and keep the request."""
        serial = self.serial if serial is None else serial
        self._say({"message": "keep", "serial": serial})

    def extend(self, hosts: Mapping[str, int], kind: str = FIRM, tag: Union[int, str, None] = None) -> Union[int, str]:
        """Ask for more hosts while the job runs, ``firm`` or ``revocable`` ones; return the tag.

        This replaces the pending request of that kind; no hosts withdraw it. Messages bring the answer.
        """
        message = {"message": "extend", "tag": self._tag(tag), "hosts": dict(hosts), "kind": kind}
        self._say(message)
        return message["tag"]  # type: ignore[return-value]

    def release(self, names: Sequence[str]) -> None:
        """Give hosts back while the job runs; answered by a message."""
        self._say({"message": "release", "names": list(names)})

    def done(self) -> None:
        """Give all hosts back; ``ended`` will answer."""
        self._say({"message": "done"})

    # Messages of the server

    def messages(self, timeout: float | None = None) -> Iterator[Message]:
        """Yield the messages of the server, up to ``ended``; also end when nothing comes for ``timeout`` seconds.

        Raises :class:`NotConnected`. Several views that were not taken become one, with the changes of all.
        """
        while (message := self.next(timeout)) is not None:
            yield message
            if message["message"] == "ended":
                return

    def next(self, timeout: float | None = None) -> Message | None:
        """Return the next message, None after ``timeout`` seconds or the end. Raises :class:`NotConnected`."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._connection.over, timeout)
            if not self._queue:
                self._require_connection()
                return None
            message = self._queue.popleft()
        self._take(message)
        return message

    def close(self) -> None:
        """Leave the job. If it is not over, it counts as lost, unless another launcher attaches."""
        self._connection.close()

    def _require_connection(self) -> None:
        if self._connection.lost:
            raise NotConnected(self._connection.lost)

    def _tag(self, tag: Union[int, str, None]) -> Union[int, str]:
        if tag is not None:
            return tag
        self._tags += 1
        return self._tags

    def _say(self, message: Message) -> None:
        self._require_connection()
        self._connection.say(message)

    def _ask(self, message: Message, answer: str) -> Message:
        """Send a message and return its answer, which is not among :meth:`messages`."""
        word = message["message"]
        with self._changed:
            self._awaited = word, answer
            self._answers.clear()
        self._say(message)
        with self._changed:
            self._changed.wait_for(lambda: self._answers or self._connection.over)
            self._awaited = None
            if not self._answers:
                raise NotConnected(self._connection.lost or "the job was closed")
            received = self._answers.pop()
        if received["message"] == "refused":
            raise MessageRefused(received["code"], received["reason"])
        return received

    # In the thread of the connection

    def _note(self) -> None:
        """Wake the waiting caller: the connection is over."""
        with self._changed:
            self._changed.notify_all()

    def _hear(self, message: Message) -> None:
        word = message["message"]
        with self._changed:
            sent, answer = self._awaited or ("", "")
            if word == answer or (word == "refused" and message["of"] == sent):
                self._awaited = None
                self._answers.append(message)
                self._changed.notify_all()
                return
            if self._told is None:
                if word == "changeNotify" and self._queue and self._queue[-1]["message"] == word:
                    message = merged(self._queue.pop(), message)
                self._queue.append(message)
                self._changed.notify_all()
                return
        self._take(message)
        self._told(message)

    def _take(self, message: Message) -> None:
        """Update the state of the job from a message."""
        word = message["message"]
        if word == "changeNotify":
            self.serial = message["serial"]
            self.view.update((name, BusyHosts.of(profile)) for name, profile in message["changes"].items())
        elif word == "startNotify":
            self.hosts = {cluster: list(names) for cluster, names in message["names"].items()}
            self.until = message["until"]
        elif word == "granted":
            self.hosts = joined(self.hosts, message["names"])
        elif word == "released":
            self.hosts = without(self.hosts, flat(message["names"]))
