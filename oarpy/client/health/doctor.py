"""``oarpy doctor``: checks everything that an installation needs, and prints what is wrong and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from oarpy.client.health import database_health, node_health, server_health
from oarpy.client.health.finding import Finding
from oarpy.client.rendering import JsonValue
from oarpy.configuration import Configuration, load
from oarpy.model.errors import OarpyError
from oarpy.store.database import Connection, connect, database_dsn, reachable

_SERVER_CHECKS: dict[str, Callable[[Configuration], Iterator[Finding]]] = {
    "configuration": server_health.settings,
    "disk": server_health.disks,
    "sockets": server_health.sockets,
}
_DATABASE_CHECKS: dict[str, Callable[[Connection, Configuration], Iterator[Finding]]] = {
    "database": database_health.server,
    "schema": database_health.schema,
    "modules": database_health.modules,
    "accounting": database_health.weights,
    "jobs": database_health.jobs,
    "energy": database_health.energy,
    "nodes": node_health.nodes,
}
CHECKS = (*_SERVER_CHECKS, *_DATABASE_CHECKS)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The findings, and the checks that were made."""

    findings: tuple[Finding, ...]
    checked: tuple[str, ...]

    def text(self) -> str:
        """Return a line for each finding, or a line that says that there is none."""
        lines = "".join(finding.line() for finding in self.findings)
        return lines or f"all is well: {', '.join(self.checked)}\n"

    def data(self) -> dict[str, JsonValue]:
        """Return ``findings`` (``check``, ``what``, ``do``) and the names of the checks as ``checked``."""
        findings = [{"check": finding.check, "what": finding.what, "do": finding.todo} for finding in self.findings]
        return {"findings": findings, "checked": self.checked}


def examine() -> Diagnosis:
    """Make all checks; a check is left out if it needs something that is wrong already."""
    try:
        configuration = load()
    except OarpyError as error:
        return Diagnosis((_failed("configuration", error, "correct it, then ask again"),), ("configuration",))
    findings = [finding for check in _SERVER_CHECKS.values() for finding in check(configuration)]
    checked = [*_SERVER_CHECKS]
    with ExitStack() as stack:
        checked.append("database")
        try:
            stack.enter_context(reachable())
            dsn, timeout = database_dsn(configuration), configuration.database.connect_timeout
            connection = stack.enter_context(connect(dsn, "doctor", timeout=timeout))
        except OarpyError as error:
            return Diagnosis((*findings, _failed("database", error, "start it: oarpy db start")), tuple(checked))
        for name, check in _DATABASE_CHECKS.items():
            faults = list(check(connection, configuration))
            findings += faults
            checked.append(name)
            if name == "schema" and faults:
                break  # the next checks read tables that may not be there
    return Diagnosis(tuple(findings), tuple(dict.fromkeys(checked)))


def _failed(check: str, error: OarpyError, todo: str) -> Finding:
    return Finding(check, error.message, error.hint or todo)
