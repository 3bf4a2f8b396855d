"""The processor time of a cluster on this machine: of modules, database sessions, agents, supervisors and jobs."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psycopg

from oarpy.local_cluster.sandbox import Sandbox

_TICKS = os.sysconf("SC_CLK_TCK")


def account(sandbox: Sandbox) -> dict[str, float]:
    """Return the processor seconds spent so far, by role; the difference of two accounts is what happened between.

    ``jobs`` is what the jobs' own processes used; a database session is named after the module it belongs to.
    """
    processes = _processes()
    children = _children(processes)
    spent: defaultdict[str, float] = defaultdict(float)
    server = sandbox.server
    for pid in children.get(server.pid, []) if server is not None else []:
        name = _module(pid)
        spent[name] += processes[pid][1]
        if name != "launcher":
            spent[name] += _of_all(children, processes, pid)
            continue
        for agent in children.get(pid, []):
            spent["agents"] += processes[agent][1] + processes[agent][2]
            for supervisor in children.get(agent, []):
                spent["supervisors"] += processes[supervisor][1]
                spent["jobs"] += processes[supervisor][2]
    return {**spent, **_of_database(sandbox, children, processes)}


def of_questions(gateway: int | None, own_session: int) -> float:
    """Return the processor seconds that a gateway and a database have spent, both below these processes so far.

    ``own_session`` is a session of the database, whose own time does not count; every other one does.
    """
    processes = _processes()
    children = _children(processes)
    server = processes[own_session][0]
    below = [pid for pid in children.get(server, []) if pid != own_session]
    spent = processes[server][2] + sum(processes[pid][1] for pid in below)
    if gateway is not None:
        spent += processes[gateway][1] + processes[gateway][2] + _of_all(children, processes, gateway)
    return spent


def of_processes(pids: Iterable[int]) -> float:
    """Return the processor seconds that these processes, and what they started and saw end, have spent so far."""
    known = _processes()
    return sum(sum(known[pid][1:]) for pid in pids if pid in known)


def session_of(connection: psycopg.Connection[Any], name: str) -> int:
    """Return the process of the database session that has this name."""
    row = connection.execute("SELECT pid FROM pg_stat_activity WHERE application_name = %s", [name]).fetchone()
    assert row is not None
    return int(row[0])


def _children(processes: dict[int, tuple[int, float, float]]) -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for pid, (parent, _, _) in processes.items():
        children.setdefault(parent, []).append(pid)
    return children


def _of_all(children: dict[int, list[int]], processes: dict[int, tuple[int, float, float]], pid: int) -> float:
    below = children.get(pid, [])
    return sum(processes[child][1] + _of_all(children, processes, child) for child in below)


def _of_database(
    sandbox: Sandbox, children: dict[int, list[int]], processes: dict[int, tuple[int, float, float]]
) -> dict[str, float]:
    spent: defaultdict[str, float] = defaultdict(float)
    with psycopg.connect(sandbox.dsn(), application_name="benchmark", autocommit=True) as connection:
        own = connection.info.backend_pid
        postmaster = processes[own][0] if own in processes else _parent(own)
        names: dict[int, str] = dict(
            connection.execute(
                "SELECT pid, coalesce(nullif(application_name, ''), backend_type) FROM pg_stat_activity"
            ).fetchall()
        )
    spent["database: ended sessions"] += processes[postmaster][2]
    for pid in children.get(postmaster, []):
        if pid != own:
            spent[f"database: {names.get(pid, 'other')}"] += processes[pid][1]
    return spent


def _processes() -> dict[int, tuple[int, float, float]]:
    """Every process: its parent, its own processor seconds, those of the children it has waited for."""
    processes = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # gone meanwhile
        own, waited = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
        processes[int(path.parent.name)] = (int(fields[1]), own / _TICKS, waited / _TICKS)
    return processes


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _module(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return "gone"
    words = [word for word in words if word]
    return words[-1].removeprefix("oarpy.") if words else "gone"
