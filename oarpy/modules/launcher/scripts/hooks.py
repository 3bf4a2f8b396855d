"""What the site has run around every job: prologue and epilogue, on the server and on the job's nodes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from oarpy.configuration import JobSettings
from oarpy.model.states import JobState
from oarpy.modules.launcher.channels import Channels
from oarpy.modules.launcher.reports import Hears
from oarpy.modules.launcher.scripts.on_nodes import NodeScripts
from oarpy.modules.launcher.scripts.on_server import EVENTS, ServerScripts
from oarpy.store.database import Connection
from oarpy.store.jobs import server_scripts
from oarpy.store.jobs.execution import End, LiveRow
from oarpy.wire.jobs import JobKey, JobSpec
from oarpy.wire.messages import EPILOGUE, OK, PROLOGUE, ChannelLost, Ready, Release, ScriptEnded


class Hooks:
    """The site's programs around jobs. False where nothing is configured: then none of it is called for any job."""

    def __init__(self, settings: JobSettings) -> None:
        self.server_prologue = ServerScripts(PROLOGUE, settings.server_prologue, settings.server_script_timeout)
        self.server_epilogue = ServerScripts(EPILOGUE, settings.server_epilogue, settings.server_script_timeout)
        self._prologue = NodeScripts(PROLOGUE, settings.prologue, settings.script_timeout)
        self._epilogue = NodeScripts(
            EPILOGUE, settings.epilogue, settings.script_timeout, after_prologue=bool(settings.prologue)
        )
        self._configured = any((self.server_prologue, self.server_epilogue, self._prologue, self._epilogue))

    def __bool__(self) -> bool:
        return self._configured

    def files(self) -> list[int]:
        """Return descriptors that are readable when a script on the server has ended."""
        return [*self.server_prologue.files(), *self.server_epilogue.files()]

    @property
    def patience(self) -> float:
        """Seconds after which the time of a script on the server is over."""
        deadlines = [self.server_prologue.next_deadline, self.server_epilogue.next_deadline]
        return min((max(0.0, at - time.monotonic()) for at in deadlines if at is not None), default=float("inf"))

    def pass_server(
        self, connection: Connection, attempts: Sequence[tuple[int, int]], now: float
    ) -> tuple[set[int], list[End]]:
        """Run the server's prologue of these (job, attempt); return the jobs that it let pass, and ends of others."""
        if not self.server_prologue:
            return {job for job, _ in attempts}, []
        ended = self.server_prologue.advance(connection, attempts)
        failed = [
            End(one.job, JobState.ERROR, None, None, now, f"SERVER_PROLOGUE_{EVENTS[one.outcome]}", one.detail[:500])
            for one in ended.values()
            if one.outcome != OK
        ]
        return {job for (job, _), one in ended.items() if one.outcome == OK}, failed

    def prepared(self, jobs: Sequence[tuple[JobSpec, Sequence[str]]], channels: Channels) -> list[JobSpec]:
        """Run the prologue of jobs on their nodes; return those that are ready to be started."""
        if not self._prologue:
            return [spec for spec, _ in jobs]
        return [spec for spec, hosts in jobs if self._prologue.is_done(spec, hosts, channels)]

    def concluded(
        self,
        connection: Connection,
        rows: Sequence[LiveRow],
        specs: Mapping[int, JobSpec],
        channels: Channels,
    ) -> list[int]:
        """Run the epilogues of jobs whose nodes are clean; return the jobs for which there is nothing more to do."""
        if self._epilogue:
            rows = [row for row in rows if self._is_concluded_on_nodes(row, specs.get(row.id), channels)]
        if not self.server_epilogue:
            return [row.id for row in rows]
        attempts = [(row.id, row.attempt) for row in rows if not self.server_prologue.is_running(row.id)]
        if self.server_prologue:
            begun = {(one.job, one.attempt) for one in server_scripts.find(connection, PROLOGUE, attempts)}
        else:
            begun = {(row.id, row.attempt) for row in rows if row.ends_at is not None}
        over = [job for job, attempt in attempts if (job, attempt) not in begun]
        ended = self.server_epilogue.advance(connection, [one for one in attempts if one in begun])
        return over + [job for job, _ in ended]

    def _is_concluded_on_nodes(self, row: LiveRow, spec: JobSpec | None, channels: Channels) -> bool:
        ran = bool(self._prologue) or row.ends_at is not None
        return spec is None or not ran or self._epilogue.is_done(spec, row.nodes, channels)

    def release(self, connection: Connection, jobs: Sequence[int]) -> None:
        """Drop what is kept of the jobs' scripts on the server, within the transaction that closes the jobs."""
        if self:
            server_scripts.forget(connection, jobs)

    def let_nodes_forget(self, rows: Iterable[LiveRow], channels: Channels) -> None:
        """Let the nodes of these jobs drop what they keep, after that transaction."""
        if self._prologue or self._epilogue:
            for row in rows:
                for node in row.nodes:
                    channels.send(node, Release((JobKey(row.id, row.attempt),)))

    def hears(self) -> Hears:
        """Return the method for each report that is heard here."""
        return {ScriptEnded: self._answered, Ready: self._lose, ChannelLost: self._lose}

    def _answered(self, node: str, report: ScriptEnded) -> None:
        """Take in how a script ended on a node."""
        (self._prologue if report.kind == PROLOGUE else self._epilogue).answered(node, report)

    def _lose(self, node: str, _report: Ready | ChannelLost) -> None:
        """Say again what a node may have missed: its channel was lost, or is new."""
        for scripts in (self._prologue, self._epilogue):
            scripts.lose(node)

    def forget(self, live: set[int]) -> None:
        """Drop what is known of jobs that are not live any more."""
        for scripts in (self.server_prologue, self.server_epilogue, self._prologue, self._epilogue):
            scripts.forget(live)

    def close(self) -> None:
        """Let go of what runs on the server."""
        self.server_prologue.close()
        self.server_epilogue.close()
