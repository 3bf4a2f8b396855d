"""One run of a launcher, in a process of its own that outlives the agent until the launcher's end.

::

    program  --standard output-->  oarnegotiate  -->  server
             <--standard input---                <--

Both programs are the user's. When the connection is lost, the launcher's input ends, and it has some time to end as
well; when the server has said that the application is over, it has as much as it likes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

from oarpy.transport.agent.job import processes
from oarpy.transport.agent.job.job_run import WAKE
from oarpy.transport.agent.job.spawning import LaunchFailure, enter_directory, start_as, umask_of
from oarpy.transport.agent.job.supervisor import detach

TYPE_CHECKING = False
if TYPE_CHECKING:
    from oarpy.transport.agent.job.account import Account
    from oarpy.transport.agent.job.job_run import RunSettings
    from oarpy.transport.agent.job.record import Record
    from oarpy.transport.agent.job.spawning import Start
    from oarpy.transport.agent.statedir import StateDir
    from oarpy.wire.jobs import JobSpec

_COMMAND = "oarnegotiate"
_RETRY_DISK = 1.0
_ERRORS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOCTTY | os.O_NONBLOCK


class LauncherRun:
    """A run of a launcher: the program of ``spec``, as its user, its errors in the file that this names."""

    def __init__(
        self, spec: JobSpec, account: Account, environment: dict[str, str], commands: str, settings: RunSettings
    ) -> None:
        self._spec = spec
        self._account = account
        self._environment = environment
        self._carrier = os.path.join(commands, _COMMAND)
        self._settings = settings
        self._statuses: dict[int, int] = {}

    def run(self) -> str:
        """Run the launcher to its end, with no process left; return what went wrong, empty when nothing did."""
        try:
            carrier, program = self._start_both()
            self._wait(carrier, program)
        except LaunchFailure as failure:
            return str(failure)
        finally:
            processes.kill_descendants(self._settings.kill, self._statuses)
        status = os.waitstatus_to_exitcode(self._statuses.get(program, signal.SIGKILL))
        if status == 0:
            return ""
        return f"it ended with exit status {status}" if status > 0 else f"it ended with signal {-status}"

    def _start_both(self) -> tuple[int, int]:
        program_input, carrier_output = os.pipe()
        carrier_input, program_output = os.pipe()
        shell = self._spec.shell or self._account.command_shell
        try:
            carrier = self._start(self._carrier, [_COMMAND], carrier_input, carrier_output)
            program = self._start(
                shell, [os.path.basename(shell), "-c", self._spec.command], program_input, program_output
            )
        finally:
            for descriptor in (program_input, carrier_output, carrier_input, program_output):
                os.close(descriptor)
        return carrier, program

    def _start(self, program: str, arguments: list[str], source: int, sink: int) -> int:
        """Start a program as the user, in the directory of the submission; return its process id."""
        deadline = time.monotonic() + self._settings.start

        def execute(start: Start) -> int:
            enter_directory(self._spec.directory)
            with umask_of(self._environment):
                errors = self._open_errors()
                try:
                    streams = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate((source, sink, errors))]
                    return start(program, arguments, self._environment, streams)
                finally:
                    os.close(errors)

        try:
            return start_as(
                self._account,
                self._settings.pam_service,
                execute,
                lambda: time.monotonic() >= deadline,
                (source, sink),
            )
        finally:
            os.chdir("/")

    def _open_errors(self) -> int:
        try:
            errors = os.open(self._spec.stderr, _ERRORS, 0o666)
        except (OSError, ValueError) as error:
            raise LaunchFailure.of("OUTPUT_FILES", error, self._spec.stderr) from error
        os.set_blocking(errors, True)
        return errors

    def _wait(self, carrier: int, program: int) -> None:
        """Wait for the ends of both; the second has some time unless the application is over."""
        deadline: float | None = None
        while processes.reap_children(self._statuses):
            over = self._statuses.keys() & {carrier, program}
            if len(over) == 2:
                return
            if deadline is None and over and self._statuses.get(carrier) != 0:
                deadline = time.monotonic() + self._spec.kill_grace
            if deadline is None:
                signal.sigwaitinfo(WAKE)
            elif (left := deadline - time.monotonic()) > 0:
                signal.sigtimedwait(WAKE, left)
            else:
                return


def start_launcher(state: StateDir, launcher_record: Record, run: LauncherRun) -> int:
    """Fork the process that runs a launcher, begun in its record, whose lock goes with it; return its process id."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        detach(launcher_record.fd)
        detail = run.run()
        while True:
            try:
                launcher_record.append("ended", time.time(), detail=detail)
                break
            except OSError:
                time.sleep(_RETRY_DISK)  # a full disk
        launcher_record.close()
        with contextlib.suppress(OSError):
            state.ring()
        status = 0
    finally:
        os._exit(status)
