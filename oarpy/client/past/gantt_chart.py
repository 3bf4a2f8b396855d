"""``oarstat -g``: jobs on nodes over a period, as a chart of characters or as JSON."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypedDict

from oarpy.client.rendering import local_date, natural, width
from oarpy.store.passes.gantt import GanttBar

WIDTH = 60
"""Columns of the chart for a program."""

_LEAST = 39
"""Columns that the two dates over the chart take, with a blank between them."""

_SYMBOLS = string.ascii_letters + string.digits
_SEVERAL = "#"
_FREE = "."
_OTHER = "+"
_KEY = f"{_FREE} = free, {_SEVERAL} = several jobs\n"


class BarDocument(TypedDict):
    """A job on resources, from ``begin`` to ``end`` in epoch seconds."""

    job_id: int
    owner: str
    queue: str
    state: str
    begin: int
    end: int
    resources: Sequence[int]


class GanttDocument(TypedDict):
    """A period in epoch seconds, the node of each resource by its id, and the jobs."""

    begin: int
    end: int
    resources: Mapping[str, str]
    jobs: Sequence[BarDocument]


def chart(
    bars: Sequence[GanttBar], nodes: Mapping[int, str], begin: datetime, end: datetime, columns: int | None = None
) -> str:
    """Return a line a node with a symbol a job, ``#`` where several share the node, and the legend of the symbols.

    The first jobs get a symbol of their own, all others share ``+``. Nodes stand in the order of the numbers in their
    names: ``n2`` before ``n10``.

    ``nodes`` names the node of each resource id; a bar at least touches the column it begins in. The chart takes
    ``columns`` characters of a line, names included. By default it takes :data:`WIDTH` beside the names.
    """
    margin = max((width(name) for name in nodes.values()), default=0)
    across = WIDTH if columns is None else max(_LEAST, columns - margin - 1)
    symbols = dict(zip(dict.fromkeys(bar.job_id for bar in bars), _SYMBOLS, strict=False))
    others = len({bar.job_id for bar in bars}) - len(symbols)
    lines = {name: [_FREE] * across for name in sorted(set(nodes.values()), key=natural)}
    step = (end.timestamp() - begin.timestamp()) / across
    for bar in bars:
        first = max(0, int((bar.begin - begin.timestamp()) // step))
        last = min(across, max(first + 1, int(-(-(bar.end - begin.timestamp()) // step))))
        for name in {nodes[resource] for resource in bar.resource_ids if resource in nodes}:
            for place in range(first, last):
                taken = lines[name][place]
                own = symbols.get(bar.job_id, _OTHER)
                lines[name][place] = own if taken in (_FREE, own) else _SEVERAL
    head = f"{'':{margin}} {local_date(begin.timestamp())}{local_date(end.timestamp()):>{across - 19}}\n"
    body = "".join(f"{name}{' ' * (margin - width(name))} {''.join(cells)}\n" for name, cells in lines.items())
    legend = "".join(
        f"{symbols[bar.job_id]} = job {bar.job_id} ({bar.user}, {bar.state}):"
        f" {local_date(bar.begin)} - {local_date(bar.end)}, {_resources(len(bar.resource_ids))}\n"
        for bar in bars
        if bar.job_id in symbols
    )
    rest = f"{_OTHER} = {others} more jobs: a shorter period, or -u USER, shows which\n" if others else ""
    return head + body + _KEY + legend + rest


def _resources(number: int) -> str:
    return f"{number} resource{'' if number == 1 else 's'}"


def document(bars: Sequence[GanttBar], nodes: Mapping[int, str], begin: datetime, end: datetime) -> GanttDocument:
    """Return the same as a JSON object."""
    return {
        "begin": int(begin.timestamp()),
        "end": int(end.timestamp()),
        "resources": {str(resource): name for resource, name in nodes.items()},
        "jobs": [
            {
                "job_id": bar.job_id,
                "owner": bar.user,
                "queue": bar.queue,
                "state": bar.state,
                "begin": int(bar.begin),
                "end": int(bar.end),
                "resources": bar.resource_ids,
            }
            for bar in bars
        ],
    }
