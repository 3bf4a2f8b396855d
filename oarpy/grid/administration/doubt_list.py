"""Doubts: decided transactions whose outcome a cluster has not confirmed."""

from __future__ import annotations

from collections.abc import Iterable

from oarpy.client.rendering import Column, JsonValue, Table, local_date, one_line
from oarpy.store.grid.transactions import GridDoubt

_TITLES = ("Transaction", "Changes", "Job", "Cluster", "Decided", "Since", "Asked", "Message")


def table(doubts: Iterable[GridDoubt]) -> Table:
    """Return doubts for people."""
    return Table(tuple(map(Column, _TITLES)), tuple(map(_cells, doubts)))


def record(doubt: GridDoubt) -> dict[str, JsonValue]:
    """Return a doubt for programs; ``since`` in epoch seconds, ``asked`` times."""
    return {
        "transaction": doubt.transaction,
        "kind": doubt.kind,
        "job": doubt.job,
        "cluster": doubt.cluster,
        "committed": doubt.committed,
        "since": doubt.since,
        "asked": doubt.asked,
        "message": doubt.message,
    }


def _cells(doubt: GridDoubt) -> tuple[str, ...]:
    job = "" if doubt.job is None else str(doubt.job)
    decided = "commit" if doubt.committed else "abort"
    since = local_date(doubt.since)
    return (
        str(doubt.transaction),
        doubt.kind,
        job,
        doubt.cluster,
        decided,
        since,
        str(doubt.asked),
        one_line(doubt.message),
    )
