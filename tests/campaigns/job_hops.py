"""How often a job's id goes from one room of the code to another, from its submission to its end.

``python -m tests.campaigns.job_hops`` runs one job on the modules of a small cluster, records every call, and prints
the calls between rooms that are given the id, or something that has it. A room is a folder of ``oarpy/``, or a folder
in one of its larger folders.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import psycopg

from oarpy.local_cluster.sandbox import Sandbox
from oarpy.postgres import embedded_server
from tests.harness import bare_environment
from tests.harness.small_cluster import Connection, SmallCluster

JOB = 7_310_051
"""An id that is no other number."""
_DEPTH = 3
"""How deep a value is searched for the id: a list of pairs of records has it."""


def hops(connection: Connection) -> Counter[tuple[str, str]]:
    """Let one job live and return how often its id went from one room to another."""
    cluster = SmallCluster(connection)
    cluster.add_nodes("n1", "n2")
    cluster.settle()
    connection.execute(f"ALTER SEQUENCE {_sequence(connection)} RESTART WITH {JOB}")
    found: Counter[tuple[str, str]] = Counter()

    def record(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_back is not None:
            caller, callee = _room(frame.f_back), _room(frame)
            if caller and callee and caller != callee and _given(frame):
                found[caller, callee] += 1

    _recorded(record, lambda: _live(cluster))
    cluster.close()
    return found


def _live(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=2")
    assert job == JOB
    cluster.settle()
    cluster.end(job)
    cluster.settle()
    assert cluster.state(job) == "Terminated"


def _recorded(record: Callable[[FrameType, str, object], None], work: Callable[[], None]) -> None:
    sys.setprofile(record)
    try:
        work()
    finally:
        sys.setprofile(None)


def _sequence(connection: Connection) -> str:
    row = connection.execute("SELECT pg_get_serial_sequence('jobs', 'job_id')").fetchone()
    assert row is not None
    return str(row[0])


def _room(frame: FrameType) -> str:
    """Return the room of a frame's code, or nothing where it is not of the product."""
    parts = str(frame.f_globals.get("__name__", "")).split(".")
    return ".".join(parts[1:3] if len(parts) > 3 else parts[1:2]) if parts[0] == "oarpy" else ""


def _given(frame: FrameType) -> bool:
    """Tell whether a call is given the id of the job."""
    code = frame.f_code
    return any(_has(frame.f_locals.get(name), _DEPTH) for name in code.co_varnames[: code.co_argcount + 2])


def _has(value: object, depth: int) -> bool:
    if isinstance(value, bool | str | bytes | float | None):
        return False
    if isinstance(value, int):
        return value == JOB
    if depth == 0:
        return False
    if isinstance(value, dict):
        return any(_has(key, depth - 1) or _has(one, depth - 1) for key, one in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return any(_has(one, depth - 1) for one in value)
    fields = ("__struct_fields__", "__dataclass_fields__")
    names = [name for kind in fields for name in getattr(type(value), kind, ())]
    return any(_has(getattr(value, name, None), depth - 1) for name in names)


def main() -> None:
    """Run it in a database made for it, and print the hops."""
    with tempfile.TemporaryDirectory(prefix="oarpy-hops-") as folder:
        sandbox = Sandbox(Path(folder))
        try:
            sandbox.create()
            with psycopg.connect(sandbox.dsn(), autocommit=True) as connection:
                found = hops(connection)
        finally:
            sandbox.stop()
            embedded_server.remove(Path(folder) / "postgresql")
    for (caller, callee), times in found.most_common():
        print(f"{times:4}  {caller} -> {callee}")
    print(f"{found.total()} hops of a job id between {len({room for pair in found for room in pair})} rooms")


if __name__ == "__main__":
    bare_environment.enter()
    main()
