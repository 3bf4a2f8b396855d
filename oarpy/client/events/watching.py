"""Following the stream on a terminal or in a pipe: ``oarpy events`` and ``oarstat --watch``."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from oarpy.client.caller import Streams, current
from oarpy.client.events.event_text import json_line, line
from oarpy.client.events.listening import listen
from oarpy.client.events.stream import ClusterEvent, EventBatch, concerns
from oarpy.client.session import Session
from oarpy.model.states import FINAL_STATES
from oarpy.store.jobs import requests


@dataclass(frozen=True, slots=True)
class Watched:
    """The events that a listener wants: of ``jobs`` (none: all), of ``user`` (None: of anybody)."""

    jobs: frozenset[int] = frozenset()
    user: str | None = None


def follow(command: str, since: str | None, wanted: Watched, streams: Streams, *, as_json: bool, once: bool) -> None:
    """Write the events after ``since`` as they come; with ``once``, only past ones.

    A JSON reader first gets the cursor that it begins after.
    """

    def begun(_: Session, cursor: str) -> bool:
        if as_json:
            streams.send(1, (json.dumps({"cursor": cursor, "kind": "begin"}) + "\n").encode())
        return True

    def hear(batch: EventBatch) -> bool:
        _write(batch.events, wanted, streams, as_json=as_json)
        return not (once and batch.complete)

    listen(command, since, streams, hear, begun)


def watch_jobs(find: Callable[[Session], Watched], *, as_json: bool) -> None:
    """Write each change of the jobs that ``find`` returns, as it comes; for named jobs until all are over."""
    wanted = Watched()
    left: set[int] = set()

    def begun(session: Session, _: str) -> bool:
        nonlocal wanted
        wanted = find(session)
        left.update(wanted.jobs)
        left.difference_update(end.job for end in requests.ends(session.connection, sorted(left)))
        return bool(left) or not wanted.jobs

    def hear(batch: EventBatch) -> bool:
        _write(batch.events, wanted, streams, as_json=as_json)
        left.difference_update(event.job for event in batch.events if event.job and event.state in FINAL_STATES)
        return bool(left) or not wanted.jobs

    with current().attached() as streams:
        listen("oarstat", None, streams, hear, begun)


def _write(events: Sequence[ClusterEvent], wanted: Watched, streams: Streams, *, as_json: bool) -> None:
    """Write the wanted events in one piece: a reader that takes nothing holds the listener up, and nothing is kept."""
    shown = [event for event in events if concerns(event, wanted.jobs, wanted.user)]
    if shown:
        streams.send(1, "".join(map(json_line if as_json else line, shown)).encode())
