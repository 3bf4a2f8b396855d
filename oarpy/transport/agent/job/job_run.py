"""One job, from the mark ``started`` to the outcome on disk, inside its supervisor."""

from __future__ import annotations

import contextlib
import os
import signal
import time

from oarpy.transport.agent.job import foreign_processes, private_directories, processes, requests, suspending
from oarpy.transport.agent.job.environment import (
    job_environment,
    node_file,
    script_file,
    write_files,
    write_script,
)
from oarpy.transport.agent.job.kept_script import as_submitted
from oarpy.transport.agent.job.spawning import LaunchFailure, enter_directory, plain_command, start_as, umask_of
from oarpy.transport.agent.kill_notice import KillNotice
from oarpy.transport.agent.steps import interactive_shell
from oarpy.transport.agent.usage import MeasuredUse, MemorySampling
from oarpy.wire.messages import APPLICATION_DONE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from typing import Any

    from oarpy.transport.agent.job.account import Account
    from oarpy.transport.agent.job.isolation import Isolation
    from oarpy.transport.agent.job.record import Record
    from oarpy.transport.agent.job.spawning import Start
    from oarpy.transport.agent.statedir import StateDir
    from oarpy.wire.jobs import JobSpec

    Tell = Callable[[str, dict[str, Any]], None]

WAKE = {signal.SIGCHLD, requests.LOOK}
_SHORT = 0.1
"""Seconds for which a job runs before its start is reported, and before it gets a group that it does not need at once.

The report of a shorter job's end has everything. Moving processes between groups costs more than starting a short job.
"""
_GATHERING = 0.05
"""Seconds after which no more processes are looked for that are to be put there: a job may fork without end."""
_RETRY_DISK = 1.0
_LONGEST_WAIT = 1e6
"""Seconds: the kernel does not take any number of them; a longer wait is one of several."""
_STEP_PAUSE = 0.1
"""Seconds between two looks whether steps that are to end have ended: they are not below this process."""
_NEED_PROCESSES = frozenset({requests.SIGNAL, requests.SUSPEND, requests.RESUME})
"""Requests that, left before the command is launched, are carried out right after."""


class RunSettings:
    """How a node runs jobs. ``pam_service`` gives the limits of jobs of users other than the agent's; empty: none.

    Each job has its own of the directories ``private``.
    In seconds: processes that live on ``kill`` after SIGKILL are given up; a job must be started within ``start``.
    """

    __slots__ = ("kill", "pam_service", "private", "start")

    def __init__(self, kill: float, start: float, pam_service: str, private: Sequence[str] = ()) -> None:
        self.kill = kill
        self.start = start
        self.pam_service = pam_service
        self.private = private


class JobRun:
    """Runs one job whose record is locked by this process.

    ``tell`` reports to the agent, if there still is an agent.
    """

    def __init__(
        self,
        state: StateDir,
        isolation: Isolation,
        record: Record,
        spec: JobSpec,
        account: Account,
        mark: str,
        tell: Tell,
        settings: RunSettings,
    ) -> None:
        self._state = state
        self._isolation = isolation
        self._record = record
        self._spec = spec
        self._account = account
        self._mark = mark
        self._tell = tell
        self._patience = settings.kill
        self._start_patience = settings.start
        self._pam_service = settings.pam_service
        self._private = settings.private
        self._step = ("USER_SHELL", "")
        self._given_up = False
        self._main = 0
        self._pipe = ""
        self._statuses: dict[int, int] = {}
        self._reason = "exited"
        self._stays = False
        self._detail = ""
        self._by_node = False
        self._memory_kills = 0
        self._usage = MeasuredUse()
        self._sampling: MemorySampling | None = None
        self._grouped = False
        self._began = time.monotonic()
        self._start = time.time()
        self._tell_at: float | None = None
        self._walltime_at: float | None = None
        self._checkpoint_at: float | None = None
        self._kill_at: float | None = None
        self._suspended_at: float | None = None
        self._early: list[tuple[str, int, str]] = []
        self._notice = KillNotice(spec, account)

    def run(self) -> int:
        """Run the job to its end; return how many of its processes, or starts, could not be ended.

        Raises ``OSError`` when the node has no room for the job's files; then the job was never started.
        """
        write_files(self._state, self._record.key, self._spec, self._account)
        write_script(self._state, self._record.key, self._spec, self._account)
        if self._spec.keep:
            self._pipe = interactive_shell.make_pipe(self._state, self._record.key, self._account)
        self._start = time.time()
        spec = self._spec
        self._record.append(
            "started",
            self._start,
            pid=os.getpid(),
            mark=self._mark,
            user=spec.user,
            resources=len(spec.nodes),
            grace=spec.kill_grace,
        )
        self._tell_at = time.monotonic() + (0.0 if self._spec.keep else _SHORT)
        hangs = False
        try:
            self._set_deadlines()
            self._take_requests()
            if self._kill_at is None:
                self._main = self._launch()
                if self._early:
                    self._take_requests()
                self._wait()
                self._stay()
                self._wait_for_steps()
        except LaunchFailure as failure:
            if self._kill_at is None:
                self._reason, self._by_node = failure.reason, failure.by_node
            self._detail = str(failure)
            hangs = failure.goes_on
        except Exception as error:  # after any failure here, the job's processes must end and an outcome be kept
            self._reason, self._detail = "SUPERVISOR", f"{type(error).__name__}: {error}"
        left = self._end()
        self._finish(left)
        return left + hangs

    def _end(self) -> int:
        """End all that the job has here; return how many processes resist."""
        try:
            if self._spec.memory:
                self._memory_kills = self._isolation.memory_kills(self._record.key)
            left = processes.kill_descendants(self._patience, self._statuses, self._usage) + self._end_steps()
            self._measure()
            return max(left, self._end_group())
        except Exception as error:  # the job did run, so an outcome must be kept
            self._detail = self._detail or f"while it was ended: {type(error).__name__}: {error}"
            return len(processes.descendants(os.getpid()))

    def _measure(self) -> None:
        """Add the use that children did not report: of steps, and of processes that only the group has seen."""
        if self._has_steps():
            self._usage.read_notes(self._state, self._record.key)
        if self._grouped or self._has_steps():
            self._usage.at_least(self._isolation.usage(self._record.key))

    def _has_steps(self) -> bool:
        return os.path.exists(self._state.step_note(self._record.key))

    def _end_group(self) -> int:
        """End the job's group, where it has one by this process or by a step; return how many processes resist."""
        # Most short jobs have none, and each hierarchy would have to be read.
        if not (self._grouped or self._has_steps()):
            return 0
        return self._isolation.end(self._record.key, self._patience)

    def _end_steps(self) -> int:
        """End the steps of the job, which are not below this process; return how many resist."""
        if not self._has_steps():
            return 0
        node = self._state.root
        return processes.kill_marked([self._mark], processes.ancestors(), self._patience, node)[self._mark][1]

    def _set_deadlines(self) -> None:
        if self._spec.walltime:
            self._walltime_at = self._began + self._spec.walltime
            if self._spec.checkpoint:
                self._checkpoint_at = self._walltime_at - self._spec.checkpoint

    def _launch(self) -> int:
        """Enter the job's group, and start its program as its user; return the process id."""
        spec, account = self._spec, self._account
        shell = spec.shell or account.command_shell
        name = os.path.basename(shell)
        name = f"-{name}" if spec.login_shell else name
        entered = False
        try:
            self._make_private()
            entered = self._enter_group()
            environment = self._environment()
            return start_as(
                account,
                self._pam_service,
                lambda start: self._execute(start, shell, name, environment),
                self._is_overdue,
                enter=lambda: private_directories.enter(self._state, self._record.key),
            )
        except LaunchFailure as failure:
            if not self._given_up:
                raise
            reason, what = self._step
            detail = f"{what[:200]}: no answer within {time.monotonic() - self._began:.0f} s"
            self._tell("stuck", {"detail": detail, "place": what if what.startswith("/") else ""})
            raise LaunchFailure(reason, detail, goes_on=failure.goes_on, by_node=True) from failure
        finally:
            if entered:
                self._isolation.leave()
            os.chdir("/")

    def _environment(self) -> dict[str, str]:
        key, group = self._record.key, self._isolation.name_of(self._record.key)
        seen = self._isolation.variables(self._spec.gpus) | private_directories.variables(self._state, key)
        return job_environment(self._state, key, self._spec, self._account, self._mark, group, seen)

    def _make_private(self) -> None:
        private_directories.make(self._state, self._record.key, self._private, self._account)
        for path in private_directories.noted(self._state, self._record.key):
            if self._spec.directory.startswith(f"{path}/"):
                detail = f"{self._spec.directory}: a job has a {path} of its own, which is empty"
                raise LaunchFailure("WORKING_DIRECTORY", detail)

    def _enter_group(self) -> bool:
        """Enter the group of a job that is confined; return whether there is something to leave."""
        spec = self._spec
        try:
            self._grouped = self._is_confined()
            if not self._grouped:
                return False
            return self._isolation.enter(self._record.key, spec.processors, spec.memory, spec.gpus)
        except OSError as error:
            raise LaunchFailure.of_devices(error) from error

    def _is_overdue(self) -> bool:
        """Carry out requests while the command is being started; return whether the start has taken too long."""
        self._take_requests()
        now = time.monotonic()
        self._meet_deadlines(now)
        late = now - self._began >= self._start_patience
        self._given_up = late or (self._kill_at is not None and now >= self._kill_at)
        return self._given_up

    def _execute(self, start: Start, shell: str, name: str, environment: dict[str, str]) -> int:
        """Start the command, as the job's user and with the files that are made as its submitter would."""
        with umask_of(environment):
            return self._execute_there(start, shell, name, environment)

    def _execute_there(self, start: Start, shell: str, name: str, environment: dict[str, str]) -> int:
        self._step = "WORKING_DIRECTORY", self._spec.directory
        enter_directory(self._spec.directory)
        opened = self._open_outputs()
        self._step = "USER_SHELL", shell
        try:
            actions = [
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, opened[0], 1),
                (os.POSIX_SPAWN_DUP2, opened[1], 2),
            ]
            self._notice.keep(opened[1])
            if self._spec.keep:
                arguments = interactive_shell.arguments(self._pipe, self._spec.keep)
                return start(interactive_shell.SHELL, arguments, environment, actions)
            command = as_submitted(self._spec, script_file(self._state, self._record.key), opened[1])
            plain = None if self._spec.login_shell else plain_command(command, shell, environment)
            if plain is not None:
                # A file that cannot be executed after all (a script without its first line, say) is left to the shell.
                try:
                    return start(*plain, {**environment, "_": plain[0]}, actions)
                except LaunchFailure as failure:
                    if failure.reason != "USER_SHELL":
                        raise
            return start(shell, [name, "-c", command], environment, actions)
        finally:
            for fd in opened:
                os.close(fd)

    def _open_outputs(self) -> list[int]:
        opened: list[int] = []
        wanted = ("", "") if self._spec.keep else (self._spec.stdout, self._spec.stderr)
        for path in (wanted[0] or os.devnull, wanted[1] or os.devnull):
            self._step = "OUTPUT_FILES", os.path.join(self._spec.directory, path)
            try:
                # Non-blocking only while opening: a pipe without a reader must not hold the supervisor for ever.
                fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOCTTY | os.O_NONBLOCK, 0o666)
            except (OSError, ValueError) as error:
                for fd in opened:
                    os.close(fd)
                raise LaunchFailure.of("OUTPUT_FILES", error, path) from error
            os.set_blocking(fd, True)
            opened.append(fd)
        return opened

    def _wait(self) -> None:
        """Wait for the command's end; while it is being terminated, for that of all its processes, up to the grace."""
        while processes.reap_children(self._statuses, self._usage):
            if self._main in self._statuses and self._kill_at is None:
                return
            now = time.monotonic()
            if self._tell_at is not None and now >= self._tell_at:
                self._tell_start()
            if self._sampling is not None and now >= self._sampling.at:
                self._sampling.sample(now, processes.offspring(), self._usage)
            if self._kill_at is not None and now >= self._kill_at:
                return
            self._meet_deadlines(now)
            deadline = self._next_deadline()
            if deadline is None:
                woken: signal.struct_siginfo | None = signal.sigwaitinfo(WAKE)
            else:
                woken = signal.sigtimedwait(WAKE, min(max(0.0, deadline - time.monotonic()), _LONGEST_WAIT))
            if woken is not None and woken.si_signo == requests.LOOK:
                self._take_requests()

    def _stay(self) -> None:
        """Stay on the node after the program has ended, if the job is kept.

        The end of the stay does not change the outcome. Processes that the program has left go on meanwhile.
        """
        if self._kill_at is not None or not self._spec.kept:
            return
        self._tell_start()
        self._stays, until = True, time.monotonic() + self._spec.kept
        while self._kill_at is None:
            processes.reap_children(self._statuses, self._usage)
            walltime_at = None if self._suspended_at is not None else self._walltime_at
            left = (until if walltime_at is None else min(until, walltime_at)) - time.monotonic()
            if left <= 0:
                return
            woken = signal.sigtimedwait(WAKE, min(left, _LONGEST_WAIT))
            if woken is not None and woken.si_signo == requests.LOOK:
                self._take_requests()

    def _wait_for_steps(self) -> None:
        """Give the steps of a job that is being terminated the same time as its program."""
        while self._kill_at is not None and time.monotonic() < self._kill_at and self._steps():
            woken = signal.sigtimedwait(WAKE, _STEP_PAUSE)
            if woken is not None and woken.si_signo == requests.LOOK:
                self._take_requests()

    def _steps(self) -> list[int]:
        """Return the processes of the job on this node that are not below this process."""
        if not self._has_steps():
            return []
        below = set(processes.descendants(os.getpid()))
        by_mark = processes.marked([self._mark], below | processes.ancestors(), self._state.root)
        return by_mark.get(self._mark, [])

    def _is_confined(self) -> bool:
        """Whether the job is in its group from the start: another user's must not fork beyond its limit before."""
        limited = self._isolation.limits_processes and self._account.uid != os.geteuid()
        return bool(self._spec.processors or self._spec.memory or limited or self._isolation.walls(self._spec.gpus))

    def _tell_start(self) -> None:
        if self._tell_at is not None:
            self._tell_at = None
            self._tell("started", {"start": self._start})
            if self._isolation.groups and not self._is_confined():
                self._gather()
            if not (self._grouped and self._isolation.keeps_peak(self._record.key)):
                self._sampling = MemorySampling(time.monotonic())

    def _gather(self) -> None:
        """Put the job's processes into its group, until a look finds no new one."""
        self._grouped = True
        known: set[int] = set()
        until = time.monotonic() + _GATHERING
        while time.monotonic() < until:
            new = [pid for pid in processes.offspring() if pid not in known]
            if not new:
                return
            for pid in new:
                if time.monotonic() < until:
                    self._isolation.gather(self._record.key, pid)
            known.update(new)

    def _next_deadline(self) -> float | None:
        pending = [self._tell_at, self._kill_at, self._sampling.at if self._sampling is not None else None]
        if self._suspended_at is None and self._kill_at is None:
            pending += [self._checkpoint_at, self._walltime_at]
        return min((at for at in pending if at is not None), default=None)

    def _meet_deadlines(self, now: float) -> None:
        if self._suspended_at is not None or self._kill_at is not None:
            return
        if self._walltime_at is not None and now >= self._walltime_at:
            self._terminate("walltime", self._spec.kill_grace, "its walltime was over")
        elif self._checkpoint_at is not None and now >= self._checkpoint_at:
            self._checkpoint_at = None
            self._signal(self._spec.checkpoint_signal)
            if self._has_other_nodes():
                self._report_change("checkpoint")  # the server tells them

    def _has_other_nodes(self) -> bool:
        """Whether the job has other nodes now: since its start it may have grown."""
        nodes: Collection[str] = self._spec.nodes
        with contextlib.suppress(OSError), open(node_file(self._state, self._record.key), encoding="utf-8") as lines:
            nodes = list(lines)
        return len(set(nodes)) > 1

    def _take_requests(self) -> None:
        early, self._early = self._early, []
        for verb, value, reason in [*early, *requests.take_requests(self._state, self._record.key)]:
            if not self._main and verb in _NEED_PROCESSES:
                self._early.append((verb, value, reason))
            elif verb == requests.KILL:
                self._terminate("killed", self._spec.kill_grace if value < 0 else value, reason)
            elif verb == requests.SIGNAL:
                self._signal(value)
            elif verb == requests.SUSPEND:
                self._suspend()
            elif verb == requests.RESUME:
                self._resume()
            elif verb == requests.WALLTIME:
                self._change_walltime(value)

    def _terminate(self, reason: str, grace: float, message: str) -> None:
        kill_at = time.monotonic() + grace
        if self._kill_at is not None:
            self._kill_at = min(self._kill_at, kill_at)
            return
        self._kill_at = kill_at
        if self._stays:
            message = APPLICATION_DONE  # a program that has ended gets no notice that it was killed
        else:
            self._reason = reason
        if message != APPLICATION_DONE:
            self._notice.tell(message, self._steps())
        if self._suspended_at is not None:
            suspending.thaw(self._isolation.freezers(self._record.key))
        tree = processes.descendants(os.getpid())
        processes.send(tree, signal.SIGTERM)
        processes.send(tree, signal.SIGCONT)
        foreign_processes.terminate(self._steps())

    def _signal(self, number: int) -> None:
        """Signal the job's processes; the shell around the command only when it handles the signal or is all there is.

        A shell without a handler would die, and the job with it, though the program below it wanted to act.
        """
        foreign_processes.send(self._steps(), number)
        if self._spec.keep:
            return  # the process that keeps an interactive job is none of its programs
        tree = processes.descendants(os.getpid())
        if len(tree) > 1 and not processes.catches(self._main, number):
            tree = [pid for pid in tree if pid != self._main]
        processes.send(tree, number)

    def _suspend(self) -> None:
        """Stop the job. A stopped job may have new processes, and the asker wants an answer, so it is stopped again."""
        if self._kill_at is not None:
            return
        if self._suspended_at is None:
            self._suspended_at = time.monotonic()
        suspending.stop(self._isolation.freezers(self._record.key), self._steps, os.getpid())
        self._report_change("suspended")

    def _resume(self) -> None:
        if self._kill_at is not None:
            return
        if self._suspended_at is not None:
            pause = time.monotonic() - self._suspended_at
            self._suspended_at = None
            if self._walltime_at is not None:
                self._walltime_at += pause
            if self._checkpoint_at is not None:
                self._checkpoint_at += pause
        suspending.go_on(self._isolation.freezers(self._record.key), self._steps, os.getpid())
        self._report_change("resumed")

    def _report_change(self, event: str) -> None:
        self._tell_start()
        at = self._now()
        with contextlib.suppress(OSError):  # a full disk: the job goes on, the agent gets the report all the same
            self._record.append(event, at)
        self._tell(event, {"at": at})

    def _change_walltime(self, seconds: int) -> None:
        """Set a new walltime, counted from the start as the old one; times of suspension stay added."""
        if self._walltime_at is not None and seconds > 0:
            moved = seconds - self._spec.walltime
            self._spec = self._spec.replace(walltime=seconds)
            self._walltime_at += moved
            at = self._walltime_at - self._spec.checkpoint
            if self._spec.checkpoint and (self._checkpoint_at is not None or at > time.monotonic()):
                self._checkpoint_at = at  # also once more, before the new end

    def _now(self) -> float:
        """Return seconds since the epoch, by the start and a clock that cannot be set: no end is before its start."""
        return self._start + (time.monotonic() - self._began)

    def _finish(self, left: int) -> None:
        """Write the outcome, however long the disk refuses it; then give the lock back and tell the agent."""
        end = self._now()
        outcome = {
            "start": self._start,
            "end": end,
            "status": self._statuses.get(self._main),
            "reason": self._reason,
            "detail": self._detail[:500],
            "by_node": self._by_node,
            "left": left,
            "memory_kills": self._memory_kills,
            **self._usage.entry(),
        }
        waited = False
        while True:
            try:
                self._record.append("ended", end, **outcome)
                break
            except OSError as error:
                # a full disk: the outcome must not be lost, and cannot be reported before it is kept
                if not waited:
                    self._tell("stuck", {"detail": f"its end cannot be written: {error.strerror}", "place": ""})
                waited = True
                time.sleep(_RETRY_DISK)
        self._notice.close()
        self._record.close()
        self._state.ring()
        self._tell("ended", outcome)
