"""Events as text: lines for people, JSON lines, and server-sent events of HTTP."""

from __future__ import annotations

import json

from oarpy.client.events.stream import ClusterEvent
from oarpy.client.jobs.job_steps import exit_status
from oarpy.client.rendering import Document, local_date, one_line
from oarpy.model.states import FINAL_STATES


def record(event: ClusterEvent) -> dict[str, Document]:
    """Return the JSON object of an event: ``cursor``, ``date`` (epoch seconds), ``kind``, and what it concerns."""
    document: dict[str, Document] = {"cursor": str(event.cursor), "date": event.at, "kind": event.kind}
    if event.job is not None:
        document["job_id"] = event.job
    if event.facts is not None:
        facts = event.facts
        document |= {"owner": facts.user, "project": facts.project, "queue": facts.queue, "array_id": facts.array_id}
    if event.name is not None:
        document["node" if event.kind == "node" else "name"] = event.name
    if event.state is not None:
        document |= {"state": event.state, "previous_state": event.previous_state}
    if event.state in FINAL_STATES and event.facts is not None:
        document["exit_code"] = event.facts.exit_status
    if event.logged is not None:
        logged = event.logged
        document |= {"type": logged.type, "hosts": list(logged.hosts), "description": logged.description}
        if logged.reason_data is not None:
            document["reason_data"] = logged.reason_data
    return document


def json_line(event: ClusterEvent) -> str:
    """Return the event as one line of JSON."""
    return json.dumps(record(event), ensure_ascii=False, separators=(",", ":")) + "\n"


def server_sent(event: ClusterEvent) -> str:
    """Return the event as a server-sent event: its kind, its cursor as the id, and its JSON object."""
    return f"event: {event.kind}\nid: {event.cursor}\ndata: {json_line(event)}\n"


def line(event: ClusterEvent) -> str:
    """Return the event as a line for people."""
    return one_line(f"{local_date(event.at)} {_subject(event)}: {_news(event)}") + "\n"


def _subject(event: ClusterEvent) -> str:
    if event.job is not None:
        return f"job {event.job}" + (f" ({event.facts.user})" if event.facts else "")
    if event.logged is not None:
        return " ".join(event.logged.hosts) or "cluster"
    return f"{event.kind} {event.name}"


def _news(event: ClusterEvent) -> str:
    if event.logged is not None:
        return f"{event.logged.type} {event.logged.description}"
    status = event.facts.exit_status if event.facts is not None and event.state in FINAL_STATES else None
    end = "" if status is None else f" (exit status {exit_status(status)})"
    return f"{event.previous_state} -> {event.state}{end}" if event.previous_state else f"{event.state}"
