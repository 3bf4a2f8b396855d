"""The messages between a launcher and the server, as far as they matter after a lost connection."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

Message = dict[str, Any]
"""A message by its fields, its word under ``message``."""

STARTED = "Started"
_NONE = object()
_IN_LINE = ("Submitted", "RequestSent", "Waiting")


class Exchange:
    """The open ends of the dialogue: how to attach, which messages to send again, and which news were passed on.

    ``job`` and ``token`` come from the answer to ``subscribe``. ``serial`` is the last view received, ``ended`` why the
    job is over. ``hosts`` are the names of the hosts that the job holds, by cluster. ``pass_token`` is the token with
    which the launcher attached, if it used one.
    """

    def __init__(self) -> None:
        self.job: int | None = None
        self.token = ""
        self.pass_token = ""
        self.serial: int | None = None
        self.ended: str | None = None
        self.hosts: HostNames = {}
        self._unanswered: dict[str, Message] = {}
        self._start: object | None = None
        self._estimates: dict[str, Message] = {}
        self._reclaim: Message | None = None
        self.interrupted = False

    def say(self, message: Message) -> None:
        """Note a message that is sent: it is open until it is answered or replaced."""
        word = message["message"]
        if word == "attach":
            self.pass_token = message.get("token", "")
        elif word == "extend":
            self._unanswered[f"extend {message['kind']}"] = message
        elif word == "release":
            earlier = self._unanswered.get(word, message)["names"]
            self._unanswered[word] = {**message, "names": list(dict.fromkeys([*earlier, *message["names"]]))}
        elif word in ("request", "keep", "done"):
            self._unanswered[word] = message
            if word == "request":
                self._unanswered.pop("keep", None)

    def hear(self, message: Message) -> list[Message]:
        """Note a received message, and return it as news: nothing if it was news before the connection was lost."""
        word = message["message"]
        if word in ("subscribed", "attached"):
            self.job = message["job"]
            self.token = message.get("token", self.token)
        elif word == "changeNotify":
            self.serial = message["serial"]
        elif word == "startNotify":
            return self._hear_start(message)
        elif word == "estimate":
            return self._hear_estimate(message)
        elif word == "granted":
            self._answered(message, "extend")
            before, self.hosts = self.hosts, joined(self.hosts, message["names"])
            return [message] if before != self.hosts else []
        elif word == "released":
            before = self.hosts
            self._lose(flat(message["names"]))
            return [message] if before != self.hosts else []
        elif word == "reclaim":
            known, self._reclaim = self._reclaim, message
            return [message] if known != message else []
        elif word == "refused":
            self._hear_refusal(message)
        elif word == "ended":
            self.ended = message["reason"]
        return [message]

    def attach(self) -> Message:
        """Return the message that continues with the job over another connection."""
        assert self.job is not None
        known: Message = {"message": "attach", "job": self.job}
        if self.pass_token:
            known["token"] = self.pass_token
        if self.serial is not None:
            known["serial"] = self.serial
        return known

    def again(self, attached: Message) -> Iterator[Message]:
        """Yield the messages that must be sent again, because the server did not get them."""
        state, tag = attached["state"], attached["tag"]
        request, keep = self._unanswered.get("request"), self._unanswered.get("keep")
        if state in _IN_LINE and request is not None and request["tag"] != tag:
            yield request
        elif state in _IN_LINE and keep is not None and keep["serial"] == self.serial:
            yield keep
        if state == STARTED and "done" in self._unanswered:
            yield self._unanswered["done"]

    def again_started(self) -> Iterator[Message]:
        """Yield the messages to send again for a running job, once its hosts are known."""
        for word, message in self._unanswered.items():
            if word.startswith("extend "):
                yield message
        release = self._unanswered.get("release")
        if release is not None:
            yield release

    def _hear_start(self, message: Message) -> list[Message]:
        """Return the first start as it is, and a later one as the grants and releases since."""
        self._answered(message, "request")
        before, self.hosts = self.hosts, {cluster: list(names) for cluster, names in message["names"].items()}
        if self._start is None:
            self._start = message["tag"]
            return [message]
        news = []
        if gained := without(self.hosts, flat(before)):
            request = next(
                (self._unanswered.pop(word) for word in [*self._unanswered] if word.startswith("extend ")), {}
            )
            hosts = {cluster: len(names) for cluster, names in gained.items()}
            what = {"tag": request.get("tag"), "kind": request.get("kind"), "hosts": hosts, "names": gained}
            news.append({"message": "granted", **what})
        if gone := flat(without(before, flat(self.hosts))):
            self._lose(gone)
            news.append({"message": "released", "names": gone})
        return news

    def _hear_estimate(self, message: Message) -> list[Message]:
        self._answered(message)
        tag = repr(message["tag"])
        if self._estimates.get(tag) == message:
            return []
        self._estimates[tag] = message
        return [message]

    def _hear_refusal(self, message: Message) -> None:
        if message["of"] == "release":
            self._unanswered.pop("release", None)
        elif message["of"] in ("keep", "done"):
            self._unanswered.pop(message["of"], None)
        elif message["of"] in ("request", "extend"):
            self._answered(message, message["of"])

    def _answered(self, message: Message, *words: str) -> None:
        """Close the open message with the tag of this message, among those of these ``words``, or of all."""
        tag = message.get("tag")
        for word, sent in [*self._unanswered.items()]:
            if sent.get("tag", _NONE) == tag and (not words or sent["message"] in words):
                del self._unanswered[word]

    def _lose(self, names: Sequence[str]) -> None:
        self.hosts = without(self.hosts, names)
        release = self._unanswered.pop("release", None)
        if release is not None and (left := [name for name in release["names"] if name not in names]):
            self._unanswered["release"] = {**release, "names": left}


HostNames = dict[str, list[str]]
"""Names of hosts by cluster."""


def joined(some: Mapping[str, Sequence[str]], more: Mapping[str, Sequence[str]]) -> HostNames:
    """Return the hosts of both, each once."""
    return {
        cluster: list(dict.fromkeys([*some.get(cluster, ()), *more.get(cluster, ())]))
        for cluster in dict.fromkeys([*some, *more])
    }


def without(hosts: Mapping[str, Sequence[str]], names: Collection[str]) -> HostNames:
    """Return the hosts that have none of these names."""
    left = {cluster: [name for name in held if name not in names] for cluster, held in hosts.items()}
    return {cluster: kept for cluster, kept in left.items() if kept}


def flat(names: object) -> list[str]:
    """Return the names of hosts, given as a list or by cluster, as a list."""
    if isinstance(names, Mapping):
        return [name for some in names.values() for name in some]
    assert isinstance(names, (list, tuple))
    return list(names)


def merged(older: Message, newer: Message) -> Message:
    """Return one ``changeNotify`` for two of them."""
    both = {**older, **newer, "changes": {**older["changes"], **newer["changes"]}}
    for name in ("cinfo", "icinfo"):
        if name in older and name in newer:
            both[name] = list(dict.fromkeys([*older[name], *newer[name]]))
    if "exact" in older and "exact" in newer:
        both["exact"] = {**older["exact"], **newer["exact"]}
    return both
