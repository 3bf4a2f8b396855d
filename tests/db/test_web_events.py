"""Server-sent events: who comes back goes on where it was, and many listeners hear the same."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import psycopg
import pytest

from oarpy.client.platform.tokens import Scope
from oarpy.model.errors import UsageError
from oarpy.store.event_stream import Cursor, parse_cursor
from oarpy.web.api import events
from oarpy.web.api.events import _stream, _Wish
from oarpy.web.event_hub import EventHub
from oarpy.web.seats import Seats
from tests.harness.sample_cluster import add_job
from tests.harness.web_client import ANN, Connection, token, web_client, web_settings

pytestmark = pytest.mark.db


def blocks(text: str) -> list[dict[str, str]]:
    """Return the events of a stream, comments left out."""
    found = (dict(line.split(": ", 1) for line in block.splitlines()) for block in text.split("\n\n"))
    return [one for one in found if "event" in one]


def told(text: str) -> list[object]:
    """Return what the events of a stream say. Where it says it depends on the transactions that were open."""
    return [{**json.loads(one["data"]), "cursor": ""} for one in blocks(text)[1:]]


def test_last_event_id_goes_on_after_it(dsn: str, connection: Connection) -> None:
    with web_client(web_settings(dsn)) as client:
        headers = token(connection, ANN, Scope.READ)
        (begin,) = blocks(client.get("/api/v1/events", params={"once": True}, headers=headers).text)
        jobs = [add_job(connection, "Waiting") for _ in range(2)]
        back = {**headers, "Last-Event-ID": begin["id"]}
        both = client.get("/api/v1/events", params={"once": True}, headers=back).text
        _, first, second = blocks(both)
        assert [json.loads(one["data"])["job_id"] for one in (first, second)] == jobs
        back = {**headers, "Last-Event-ID": first["id"]}
        assert blocks(client.get("/api/v1/events", params={"once": True}, headers=back).text)[1:] == [second]
        wish: dict[str, str | int] = {"once": True, "since": begin["id"], "job": jobs[1]}
        with psycopg.connect(dsn) as other:
            other.execute("SELECT pg_current_xact_id()")  # what others have open changes cursors, and nothing else
            mine = client.get("/api/v1/events", params=wish, headers=headers)
        assert told(mine.text) == told(both)[1:]
        (last,) = blocks(mine.text)[1:]
        back = {**headers, "Last-Event-ID": last["id"]}
        assert told(client.get("/api/v1/events", params={"once": True}, headers=back).text) == []


def test_a_stream_counts_before_it_begins_and_no_longer_than_it_lasts(
    dsn: str, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[int] = []

    async def begin(*_: object) -> Cursor:
        counted.append(events._open[ANN])
        raise UsageError("not today")

    with web_client(web_settings(dsn)) as client:
        headers, path = token(connection, ANN, Scope.READ), "/api/v1/events?once=true"
        assert client.get(path, headers=headers).status_code == 200
        assert not events._open
        with monkeypatch.context() as patch:
            patch.setattr(events, "_begin", begin)
            assert client.get(path, headers=headers).status_code == 400
        assert (counted, events._open) == ([1], {})
        monkeypatch.setattr(events, "_MOST", 0)
        assert client.get(path, headers=headers).status_code == 503


def test_nobody_listens_without_a_token(dsn: str) -> None:
    with web_client(web_settings(dsn)) as client:
        assert client.get("/api/v1/events", params={"once": True}).status_code == 401


def test_what_is_no_cursor_is_refused_and_what_is_gone_begins_anew(dsn: str, connection: Connection) -> None:
    with web_client(web_settings(dsn)) as client:
        headers = token(connection, ANN, Scope.READ)
        assert client.get("/api/v1/events", params={"since": "yesterday"}, headers=headers).status_code == 400
        gone: dict[str, str | bool] = {"since": "999-1:1:", "once": True}
        kinds = [one["event"] for one in blocks(client.get("/api/v1/events", params=gone, headers=headers).text)]
        assert kinds == ["begin", "gone"]


def test_many_listeners_hear_all_by_one_reader(dsn: str, connection: Connection) -> None:
    settings = web_settings(dsn)
    seats, hub = Seats(settings), EventHub(settings)
    hub.begin()

    async def heard(stream: AsyncIterator[str], wanted: int) -> list[int]:
        found: list[int] = []
        async for text in stream:
            found += [json.loads(one["data"])["job_id"] for one in blocks(text) if one["event"] == "job"]
            if len(found) >= wanted:
                break
        return found

    async def listen() -> tuple[list[int], list[list[int]]]:
        while hub.head is None:
            await hub.news(1.0)
        wish = _Wish(frozenset(), None, once=False)
        late = parse_cursor(str(hub.head))
        jobs = [await asyncio.to_thread(add_job, connection, "Waiting")]
        streams = [_stream(seats, hub, late, wish) for _ in range(40)]
        listening = [asyncio.create_task(heard(stream, 6)) for stream in streams]
        jobs += [await asyncio.to_thread(add_job, connection, "Waiting") for _ in range(5)]
        return jobs, await asyncio.wait_for(asyncio.gather(*listening), 60)

    try:
        jobs, found = asyncio.run(listen())
        assert found == [jobs] * 40
    finally:
        hub.close()
        seats.close()
