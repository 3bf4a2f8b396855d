"""Which processes belong to a running server, by kind: for campaigns that break them."""

from __future__ import annotations

from pathlib import Path

from oarpy.postgres import embedded_server
from oarpy.postgres.processes import postmaster
from research.benchmarks.server_processes import arguments_of, children_of, name_of, parent_of, server_processes

MODULES = (
    "automaton",
    "metascheduler",
    "launcher",
    "canceller",
    "monitor",
    "accounting",
    "notifier",
    "negotiator",
    "recurrence",
)
SERVER_KINDS = (*MODULES, "gateway", "supervisor")
DATABASE, SESSION = "database", "database session"


def server_pids(kind: str, supervisor: int, database: Path) -> list[int]:
    """The processes of ``kind`` below the supervisor; or the database in a folder, or its sessions."""
    if kind in (DATABASE, SESSION):
        data = embedded_server.data_directory(database)
        pid = postmaster(data) if data else None
        if not pid or kind == DATABASE:
            return [pid] if pid else []
        # a session is named after who is at its other end; what PostgreSQL runs for itself is not
        return [child for child in children_of(pid) if "[local]" in " ".join(arguments_of(child))]
    return server_processes(supervisor).get(kind, [])


def agents(pids: list[int]) -> list[int]:
    """Those of a node's processes that are agents: Python that a log-in there started."""
    logins = {pid for pid in pids if name_of(pid).startswith(("sshd", "sh", "dash", "bash"))}
    return [pid for pid in pids if _is_python(pid) and parent_of(pid) in logins]


def job_supervisors(pids: list[int]) -> list[int]:
    """Those of a node's processes that look after jobs: Python that an agent started, also when that agent is gone."""
    return [pid for pid in pids if _is_python(pid) and pid not in agents(pids)]


def busy_supervisors(pids: list[int]) -> list[int]:
    """Those of a node's processes that look after a job which runs now."""
    return [pid for pid in job_supervisors(pids) if children_of(pid)]


def _is_python(pid: int) -> bool:
    return name_of(pid).startswith("python")
