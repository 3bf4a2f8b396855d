"""A step: a program in a job that runs already, its streams carried by a channel of its own.

The program at the far end of that channel is this module. It receives one message with the step's specification, then
input, signals and sizes of the terminal. It sends ``started``, output, and ``ended`` or ``refused``.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import struct
import sys
import termios
import time

from oarpy.transport.agent.job import private_directories, processes, record
from oarpy.transport.agent.job.account import AccountRefusal, Accounts, check_may_run
from oarpy.transport.agent.job.environment import job_environment, write_files
from oarpy.transport.agent.job.isolation import isolation_of
from oarpy.transport.agent.job.spawning import LaunchFailure, enter_directory, start_as, umask_of
from oarpy.transport.agent.job.supervisor import become_subreaper
from oarpy.transport.agent.job.tombstones import Tombstones
from oarpy.transport.agent.statedir import StateDir, StateError
from oarpy.transport.agent.steps import interactive_shell
from oarpy.transport.agent.steps.change_bell import Bell
from oarpy.transport.agent.usage import MeasuredUse
from oarpy.wire.frames import CONTENT, ERRORS, MESSAGE, OUTPUT, Frames, Malformed, pack, pack_message, read_message
from oarpy.wire.steps import StepSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from oarpy.transport.agent.job.account import Account
    from oarpy.transport.agent.job.spawning import Start
    from oarpy.wire.steps import StepTerminal

_CHUNK = 1 << 16
_ENOUGH_INPUT = 1 << 20
_TICK = 1.0
_HANGUP_GRACE = 1.0
_PATIENCE = 5.0
_JOB_OVER = "JOB_OVER"


class Membership:
    """Whether a step may be in its job now: the job must run on this node and not be over."""

    def __init__(self, state: StateDir, keep_days: int, spec: StepSpec) -> None:
        self._state = state
        self._tombstones = Tombstones(state.forgotten, keep_days)
        self._key = str(spec.job.key)
        self._head = spec.head

    def check(self) -> None:
        """Raise :class:`AccountRefusal` when the job does not run here (any more)."""
        self._tombstones.refresh()
        if self._key in self._tombstones or (self._head and not self._runs()):
            raise AccountRefusal(_JOB_OVER, "the job does not run on this node any more")

    def _runs(self) -> bool:
        job_record, held = record.lock_record(self._state.jobs, self._key, create=False)
        if job_record is None:
            return False
        history = job_record.history()
        job_record.close()
        return not held and history.started is not None and history.ended is None


class StepStreams:
    """The step's standard streams as this process holds them."""

    def __init__(self, terminal: StepTerminal | None) -> None:
        self.theirs: list[int] = []
        self.slave = ""
        if terminal is None:
            stdin, self.input = os.pipe2(os.O_CLOEXEC)
            output, stdout = os.pipe2(os.O_CLOEXEC)
            errors, stderr = os.pipe2(os.O_CLOEXEC)
            self.theirs = [stdin, stdout, stderr]
            self.outputs = {output: OUTPUT, errors: ERRORS}
        else:
            master, slave = os.openpty()
            self.theirs = [slave]
            self.slave = os.ttyname(slave)
            self.input = master
            self.outputs = {master: OUTPUT}
            self.resize(terminal.rows, terminal.columns)
        os.set_blocking(self.input, False)

    def give_to(self, account: Account) -> None:
        """Let the user open the terminal."""
        if self.slave and os.geteuid() == 0:
            os.chown(self.slave, account.uid, -1)
            os.chmod(self.slave, 0o600)

    def actions(self) -> list[Any]:
        """Return the actions that make them a program's standard streams; a terminal becomes its session's."""
        if self.slave:
            first: list[Any] = [(os.POSIX_SPAWN_OPEN, 0, self.slave, os.O_RDWR, 0)]
            return [*first, (os.POSIX_SPAWN_DUP2, 0, 1), (os.POSIX_SPAWN_DUP2, 0, 2)]
        return [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(self.theirs)]

    def resize(self, rows: int, columns: int) -> None:
        """Set the size of the terminal; the kernel tells the programs."""
        if self.slave:
            fcntl.ioctl(self.input, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def release(self) -> None:
        """Close the descriptors that only the program needs."""
        for fd in self.theirs:
            os.close(fd)
        self.theirs = []


class StepRun:
    """One step, from its specification to its end or that of its channel."""

    def __init__(self, settings: dict[str, Any], source: int = 0, sink: int = 1) -> None:
        self._state = StateDir(settings["state"])
        self._state.create()
        self._settings = settings
        self._source = source
        self._sink = sink
        self._frames = Frames()
        self._poll = select.poll()
        self._statuses: dict[int, int] = {}
        self._usage = MeasuredUse()
        self._key = ""
        self._main = 0
        self._hold: interactive_shell.Hold | None = None
        self._waiting = bytearray()
        self._input_ends = False
        self._signals, self._woken = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def serve(self) -> None:
        """Run the step that the first message describes."""
        spec = self._read_specification()
        if spec is None:
            return
        become_subreaper()
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        membership = Membership(self._state, self._settings["keep_days"], spec)
        try:
            membership.check()
            self._launch(spec, membership)
            membership.check()
        except (AccountRefusal, LaunchFailure) as failure:
            self._end_processes(signal.SIGKILL, 0.0)
            self._say(refused=failure.reason, detail=str(failure)[:500])
            return
        self._say(started=self._main)
        self._converse(membership)

    def _read_specification(self) -> StepSpec | None:
        while True:
            content = os.read(self._source, _CHUNK)
            if not content:
                return None
            arrived = self._frames.feed(content)
            if arrived:
                kind, payload = arrived[0]
                if kind != MESSAGE:
                    raise Malformed("a step begins with its specification")
                spec = StepSpec.read(read_message(payload))
                self._early = arrived[1:]
                return spec

    def _launch(self, spec: StepSpec, membership: Membership) -> None:
        """Start the step's program as the job's user, in the job's group, on the streams or the terminal it gets."""
        job = spec.job
        account = Accounts().get(job.user)
        check_may_run(account, job.allow_root)
        key = self._key = str(job.key)
        mark = processes.mark_of(self._settings["instance"], *job.key)
        try:
            if spec.lead:
                self._hold = interactive_shell.Hold(self._state, key)
            write_files(self._state, key, job, account, replace=False)
            self._state.note_step(key)
        except OSError as error:
            raise LaunchFailure.of("CANNOT_WRITE_NODE_FILE", error, "node file") from error
        self._make_private(spec, account)
        isolation = isolation_of(self._settings)
        try:
            seen = isolation.variables(job.gpus)
        except OSError as error:
            raise LaunchFailure.of_devices(error) from error
        environment = job_environment(self._state, key, job, account, mark, isolation.name_of(key), seen)
        environment.update(private_directories.variables(self._state, key))
        environment.update(spec.variables, PWD=spec.directory, OARPY_STEP=str(os.getpid()))
        if spec.terminal:
            environment["TERM"] = spec.terminal.type
        self._streams = StepStreams(spec.terminal)
        self._streams.give_to(account)
        shell = job.shell or (account.command_shell if spec.command else account.shell)
        name = os.path.basename(shell)
        arguments = [name, "-c", spec.command] if spec.command else [f"-{name}"]

        def execute(start: Start) -> int:
            enter_directory(spec.directory)
            with umask_of(environment):
                return start(shell, arguments, environment, self._streams.actions())

        try:
            entered = isolation.enter(key, job.processors, job.memory, job.gpus)
        except OSError as error:
            raise LaunchFailure.of_devices(error) from error
        try:
            self._main = start_as(
                account,
                self._settings["pam_service"],
                execute,
                lambda: _is_over(membership),
                self._streams.theirs,
                lambda: private_directories.enter(self._state, key),
            )
        finally:
            if entered:
                isolation.leave()
            os.chdir("/")
            self._streams.release()

    def _make_private(self, spec: StepSpec, account: Account) -> None:
        """Make the job's own directories. On the node of its script they are there, or the job has none."""
        if not spec.head:
            private_directories.make(self._state, self._key, self._settings["private_directories"], account)

    def _converse(self, membership: Membership) -> None:
        """Carry streams until the program ends, the job is over, or the channel ends.

        The bell rings when a job of this node changes; without it the job is looked at now and then.
        """
        bell = Bell(self._state.bell)
        bell.listen(True)
        poll = self._poll
        for fd in (self._source, self._signals, bell.fd, *self._streams.outputs):
            if fd >= 0:
                poll.register(fd, select.POLLIN)
        self._handle(self._early)
        next_look = time.monotonic() + _TICK
        while self._main not in self._statuses:
            self._adjust_polling()
            ready = dict(poll.poll(max(0.0, next_look - time.monotonic()) * 1000))
            if bell.fd in ready:
                bell.clear()
            if bell.fd in ready or time.monotonic() >= next_look:
                next_look = time.monotonic() + _TICK
                if _is_over(membership):
                    self._end_processes(signal.SIGTERM, 0.0)
                    return self._finish()
            if self._source in ready and not self._read(ready[self._source]):
                return self._end_processes(signal.SIGHUP, _HANGUP_GRACE)
            self._pass_on(ready)
        self._end_processes(signal.SIGHUP, 0.0)
        return self._finish()

    def _adjust_polling(self) -> None:
        """Take no more input than the step does; write when it takes some. The end of the channel is always seen."""
        self._poll.modify(self._source, select.POLLIN if len(self._waiting) < _ENOUGH_INPUT else 0)
        fd = self._streams.input
        if fd < 0 or fd in self._streams.outputs:  # a terminal: one descriptor for both directions
            if fd >= 0:
                self._poll.modify(fd, select.POLLIN | (select.POLLOUT if self._waiting else 0))
        elif self._waiting:
            self._poll.register(fd, select.POLLOUT)

    def _pass_on(self, ready: dict[int, int]) -> None:
        if self._signals in ready:
            os.read(self._signals, _CHUNK)
            processes.reap_children(self._statuses, self._usage)
        for fd, kind in list(self._streams.outputs.items()):
            if ready.get(fd, 0) & ~select.POLLOUT:
                self._forward(fd, kind)
        if ready.get(self._streams.input, 0) & (select.POLLOUT | select.POLLERR | select.POLLHUP):
            self._feed()

    def _forward(self, fd: int, kind: int) -> bool:
        """Send the output of the step.

        Return False when it has closed the stream (or, non-blocking, wrote nothing more).
        """
        try:
            content = os.read(fd, _CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            content = b""  # a terminal says so that no process has it open any more
        if content:
            self._send(pack(kind, content))
            return True
        self._poll.unregister(fd)
        del self._streams.outputs[fd]
        if fd != self._streams.input:
            os.close(fd)
        return False

    def _feed(self) -> None:
        fd = self._streams.input
        try:
            del self._waiting[: os.write(fd, self._waiting)]
        except BlockingIOError:
            return
        except OSError:
            self._waiting.clear()  # the step reads no more
            self._input_ends = True
        if fd not in self._streams.outputs and not self._waiting:
            with contextlib.suppress(KeyError):
                self._poll.unregister(fd)
            self._close_input()

    def _close_input(self) -> None:
        if self._input_ends and not self._waiting and self._streams.input >= 0 and not self._streams.slave:
            os.close(self._streams.input)
            self._streams.input = -1

    def _read(self, event: int) -> bool:
        """Take the bytes that arrived; return False at the end of the channel."""
        if not event & select.POLLIN:
            return False
        content = os.read(self._source, _CHUNK)
        if not content:
            return False
        self._handle(self._frames.feed(content))
        return True

    def _handle(self, arrived: list[tuple[int, bytes]]) -> None:
        for kind, payload in arrived:
            if kind == CONTENT and payload:
                if self._streams.input >= 0 and not self._input_ends:
                    self._waiting += payload
            elif kind == CONTENT:
                self._input_ends = True
                self._close_input()
            elif kind == MESSAGE:
                self._obey(read_message(payload))
            else:
                raise Malformed("output for a step")

    def _obey(self, message: dict[str, Any]) -> None:
        number, rows, columns = message.get("signal"), message.get("rows"), message.get("columns")
        if type(number) is int and number in signal.valid_signals():
            processes.send(processes.descendants(os.getpid()), number)
        elif type(rows) is int and type(columns) is int and 0 < rows < 1 << 16 and 0 < columns < 1 << 16:
            self._streams.resize(rows, columns)
        else:
            raise Malformed("neither a signal nor a size")

    def _end_processes(self, number: int, grace: float) -> None:
        """End the processes of the step, gently first when there is time."""
        deadline = time.monotonic() + grace
        while processes.reap_children(self._statuses, self._usage) and time.monotonic() < deadline:
            tree = processes.descendants(os.getpid())
            processes.send(tree, number)
            processes.send(tree, signal.SIGCONT)
            select.select([self._signals], [], [], 0.1)
            with contextlib.suppress(BlockingIOError):
                os.read(self._signals, _CHUNK)
        processes.kill_descendants(_PATIENCE, self._statuses, self._usage)
        self._usage.note(self._state, self._key)

    def _finish(self) -> None:
        """Send the rest of the output, then how the step ended."""
        for fd, kind in list(self._streams.outputs.items()):
            os.set_blocking(fd, False)
            while self._forward(fd, kind):
                continue
        status = self._statuses.get(self._main, signal.SIGKILL)
        if self._hold is not None:
            self._hold.end(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))
        self._say(ended=status)

    def _say(self, **message: object) -> None:
        self._send(pack_message(message))

    def _send(self, frame: bytes) -> None:
        content = memoryview(frame)
        while content:
            content = content[os.write(self._sink, content) :]


def _is_over(membership: Membership) -> bool:
    try:
        membership.check()
    except AccountRefusal:
        return True
    return False


def main(settings: dict[str, Any]) -> None:
    """Entry point on the node: serve one step on standard input and output."""
    os.umask(0o022)
    run = None
    try:
        run = StepRun(settings)
        run.serve()
    except BrokenPipeError:
        pass
    except (StateError, OSError, Malformed) as error:
        detail = f"{type(error).__name__}: {error}"[:500]
        with contextlib.suppress(OSError):
            os.write(1, pack_message({"refused": "SUPERVISOR", "detail": detail}))
    finally:
        if run is not None:
            processes.kill_descendants(_PATIENCE, {})
    sys.exit(0)
