"""On which nodes a job has something: its own, the site's host for its type, or none."""

from __future__ import annotations

from collections.abc import Iterable

from oarpy.configuration import Jobs
from oarpy.model.job_types import ON_A_HOST, read_types


class Places:
    """Where the programs of jobs run, by the settings of the site."""

    def __init__(self, settings: Jobs) -> None:
        self._hosts = {"deploy": settings.deploy_host, "cosystem": settings.cosystem_host}

    @property
    def elsewhere(self) -> dict[str, str]:
        """The host by the spelling of each type of jobs that has one."""
        return {spelling: host for spelling, kind in ON_A_HOST.items() if (host := self._hosts[kind])}

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that are configured for types of jobs."""
        return tuple(sorted({host for host in self._hosts.values() if host}))

    def of(self, types: Iterable[str], nodes: Iterable[str] | None) -> tuple[str, ...]:
        """Return where a job of these types with these nodes has something, its program on the first of them."""
        meant = read_types(types)
        if meant.runs_nothing:
            return ()
        host = self._hosts.get(meant.host, "")
        return (host,) if host else tuple(nodes or ())
