"""Starting a program as a job's user, in the job's directory, with clean signals.

A program of this process's own user is spawned, without a copy of this process. For another user, a thread takes only
that user's rights to files, finds and opens the files of the program, and forks. The child becomes the user and the
program. So the user can signal or limit no thread of this process. And nothing of the user's, such as a dead file
system or a stopped child, holds up the calling thread.

Where the thread is refused, the child does all of it: a file system that a user mounts (FUSE) may admit only a process
that has all ids of that user.
"""

from __future__ import annotations

import _thread
import contextlib
import errno
import os
import re
import signal
from functools import cache

from oarpy.transport.agent.job.account import PAM, AccountRefusal, PamService, become, take_file_rights

_SHELLS = frozenset({"sh", "dash", "bash"})

_PLAIN = re.compile(r"[A-Za-z0-9_./+-][A-Za-z0-9_./+:,@-]*(?:[ \t]+[A-Za-z0-9_./+:,@%=-]+)*", re.ASCII)
"""Nothing that a shell expands, and no assignment in the place of the program."""

_OWN_WORDS = """
    . : [ alias bg bind break builtin caller case cd chdir command compgen complete compopt continue coproc declare
    dirs disown do done echo elif else enable esac eval exec exit export false fc fg fi for function getopts hash help
    history if in jobs kill let local logout mapfile popd printf pushd pwd read readarray readonly return select set
    shift shopt source suspend test then time times trap true type typeset ulimit umask unalias unset until wait while
"""
"""Built-in commands of these shells."""
_OWN = frozenset(_OWN_WORDS.split())

_STARTUP = frozenset({"BASH_ENV", "BASHOPTS", "EXECIGNORE", "SHELLOPTS", "SSH2_CLIENT", "SSH_CLIENT"})
"""Variables which make bash read a file first (some builds: when it seems to be started by sshd) or act differently."""
_FUNCTION = "BASH_FUNC_"
PROFILE = "$OARPY_NODE/bin/.profile"
"""The file that shells of jobs read first, by a variable: it has the commands of the node in the search path."""


def plain_command(command: str, shell: str, environment: dict[str, str]) -> tuple[str, list[str]] | None:
    """Return the program that ``shell -c command`` would execute in this place of the file system, and its arguments.

    Return None when the shell would do anything else, or when that is not certain. Call it with the rights of the user.
    """
    if os.path.basename(shell) not in _SHELLS or not _PLAIN.fullmatch(command):
        return None
    words = command.split()
    read = any(environment[name] != PROFILE for name in _STARTUP.intersection(environment))
    if words[0] in _OWN or read or not _may_execute(shell):
        return None
    if _FUNCTION in " ".join(environment):
        return None
    program = _find(words[0], environment.get("PATH", ""))
    return None if program is None else (program, words)


def _find(word: str, path: str) -> str | None:
    if "/" in word:
        return word if _is_program(word) else None
    for directory in path.split(os.pathsep) if path else ():
        candidate = f"{directory or '.'}/{word}"
        if _is_program(candidate):
            return candidate
        if _is_hidden(candidate):
            return None
    return None


def _is_program(path: str) -> bool:
    return _may_execute(path) and os.path.isfile(path)


def _is_hidden(path: str) -> bool:
    """Tell whether this thread may not see a path: the program itself may, on a file system of its user's."""
    try:
        os.stat(path)
    except OSError as error:
        return isinstance(error, PermissionError)
    return False


def _may_execute(path: str) -> bool:
    # By the rights of this thread. Older systems check root's rights instead: a command that then fails is given to the
    # shell.
    return os.access(path, os.X_OK, effective_ids=True)


TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from typing import Any

    from oarpy.transport.agent.job.account import Account

    Action = tuple[Any, ...]
    Start = Callable[[str, list[str], dict[str, str], Sequence[Action]], int]
    """:func:`spawn`, or its equivalent in a child that becomes the program."""

UMASK = "OARPY_UMASK"
"""Variable of a submission with the file mode creation mask of its submitter, in octal digits."""

_USUAL_UMASK = 0o022


_OF_THE_NODE = frozenset(
    {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EROFS, errno.EIO}
    | {errno.ESTALE, errno.ENOTCONN, errno.EHOSTDOWN}
)
"""Errors for which a start that fails here may succeed on another node: no process, no room, no file system."""
_LOOK_PERIOD = 1.0
"""Seconds between two looks whether a start that takes long is still wanted."""
_MOST_TOLD = 1000


class LaunchFailure(Exception):
    """The command could not be executed: OAR's reason word and a text.

    ``goes_on``: a thread of this process hangs in the attempt, so that the process must end. ``by_node``: the node may
    be why, and not the job.
    """

    def __init__(self, reason: str, detail: str, *, goes_on: bool = False, by_node: bool = False) -> None:
        super().__init__(detail)
        self.reason = reason
        self.goes_on = goes_on
        self.by_node = by_node

    @classmethod
    def of(cls, reason: str, error: OSError | ValueError, what: str) -> LaunchFailure:
        """Return the failure from ``error`` about ``what``."""
        detail = error.strerror if isinstance(error, OSError) else str(error)
        number = getattr(error, "errno", None)
        # the directory existed at the submission
        gone = reason == "WORKING_DIRECTORY" and number == errno.ENOENT
        return cls(reason, f"{what[:200]}: {detail}", by_node=gone or number in _OF_THE_NODE)

    @classmethod
    def of_devices(cls, error: OSError) -> LaunchFailure:
        """Return the failure of a start for which no walls around devices can be made, on a node that has them."""
        return cls("DEVICES", f"it cannot be kept from devices: {error.strerror or error}", by_node=True)

    @classmethod
    def of_private_directories(cls, error: OSError) -> LaunchFailure:
        """Return the failure of a start for which no directories of the job's own can be made."""
        return cls("PRIVATE_DIRECTORIES", f"it cannot have its own: {error.strerror or error}", by_node=True)

    @classmethod
    def of_refusal(cls, refusal: AccountRefusal) -> LaunchFailure:
        """Return the failure that a refused account makes: another node may have another PAM."""
        return cls(refusal.reason, refusal.detail, by_node=refusal.reason == PAM)

    def packed(self) -> bytes:
        """Return the failure as the bytes that a child sends to its parent."""
        lines = self.reason, "node" if self.by_node else "", str(self)
        return "\n".join(lines).encode(errors="replace")[:_MOST_TOLD]

    @classmethod
    def unpacked(cls, content: bytes) -> LaunchFailure:
        """Return the failure in a child's message."""
        reason, by, detail = content.decode(errors="replace").split("\n", 2)
        return cls(reason, detail, by_node=bool(by))


@cache
def _ignored_signals() -> tuple[int, ...]:
    """Return the signals this process ignores, by its own will or its parent's; a job must not inherit that."""
    return tuple(number for number in signal.valid_signals() if signal.getsignal(number) == signal.SIG_IGN)


def enter_directory(directory: str) -> None:
    """Change to the working directory of programs; raise :class:`LaunchFailure`."""
    try:
        os.chdir(directory)
    except (OSError, ValueError) as error:
        raise LaunchFailure.of("WORKING_DIRECTORY", error, directory) from error


@contextlib.contextmanager
def umask_of(environment: Mapping[str, str]) -> Iterator[None]:
    """Create files inside as the job's submitter would; a value that is no mask is ignored."""
    try:
        mask = int(environment.get(UMASK, ""), 8)
    except ValueError:
        mask = _USUAL_UMASK
    before = os.umask(mask if 0 <= mask <= 0o777 else _USUAL_UMASK)
    try:
        yield
    finally:
        os.umask(before)


def spawn(shell: str, arguments: list[str], environment: dict[str, str], actions: Sequence[Action]) -> int:
    """Start ``shell`` in a session of its own, its descriptors set up by ``actions``; return its process id."""
    # posix_spawn, not fork: copying even a small Python process costs more than the job's own shell does.
    try:
        return os.posix_spawn(
            shell,
            arguments,
            environment,
            file_actions=actions,
            setsid=True,
            setsigmask=[],
            setsigdef=_ignored_signals(),
        )
    except (OSError, ValueError) as error:
        raise LaunchFailure.of("USER_SHELL", error, shell) from error


def start_as(
    account: Account,
    pam_service: str,
    action: Callable[[Start], int],
    given_up: Callable[[], bool],
    needed: Collection[int] = (),
    enter: Callable[[], None] = lambda: None,
) -> int:
    """Have ``action`` start a program with the user and groups of ``account``; return the program's process id.

    The action gets the function that starts the program, which it calls last. The action may be repeated, in a child
    that has no descriptors but ``needed``. While it takes long, ``given_up`` is called now and then; once it returns
    true, the start is left behind. Another user's program starts with the limits of ``pam_service``, unless that is
    empty, and where ``enter`` puts the thread of the start, with the rights of root. Raises :class:`LaunchFailure`.
    """
    if os.geteuid() != 0 or account.uid == 0:
        return action(spawn)
    try:
        start = _StartAs(account, PamService(pam_service) if pam_service else None, action, needed, enter)
    except AccountRefusal as refusal:
        raise LaunchFailure.of_refusal(refusal) from refusal
    except RuntimeError as error:  # no thread: the job has as many processes as it may
        raise LaunchFailure("USER_SHELL", str(error), by_node=True) from error
    while not start.wait(_LOOK_PERIOD):
        if given_up():
            start.abandon()
            goes_on = not start.wait(_LOOK_PERIOD)
            raise LaunchFailure("USER_SHELL", "the command could not be executed in time", goes_on=goes_on)
    return start.result()


class _StartAs:
    """A start that goes on in a thread with the user's rights to files, from which a child becomes the program."""

    def __init__(
        self,
        account: Account,
        pam: PamService | None,
        action: Callable[[Start], int],
        needed: Collection[int],
        enter: Callable[[], None],
    ) -> None:
        self._account = account
        self._pam = pam
        self._action = action
        self._needed = needed
        self._enter = enter
        self._child = 0
        self._abandoned = False
        self._outcome: int | BaseException = 0
        self._running = _thread.allocate_lock()
        self._running.acquire()
        _thread.start_new_thread(self._run, ())

    def wait(self, seconds: float) -> bool:
        """Wait for the end of the thread; False when it goes on."""
        return self._running.acquire(timeout=seconds)

    def abandon(self) -> None:
        """Fork no more; kill the child, which its user may have stopped."""
        self._abandoned = True
        if self._child:
            os.kill(self._child, signal.SIGKILL)

    def result(self) -> int:
        """Return the result of the action, or raise its error."""
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return self._outcome

    def _run(self) -> None:
        try:
            self._enter()
            take_file_rights(self._account)
            self._outcome = self._start()
        except BaseException as error:  # raised again in the calling thread
            self._outcome = error
        finally:
            self._running.release()

    def _start(self) -> int:
        try:
            return self._action(self._start_program)
        except LaunchFailure as failure:
            if not isinstance(failure.__cause__, PermissionError):
                raise
        return self._fork(lambda: self._action(_execute), self._needed)

    def _start_program(
        self, program: str, arguments: list[str], environment: dict[str, str], actions: Sequence[Action]
    ) -> int:
        """Do the same as :func:`spawn` in a child that takes on the user's other ids."""
        sources = {fd for kind, fd, *_ in actions if kind == os.POSIX_SPAWN_DUP2}
        return self._fork(lambda: _execute(program, arguments, environment, actions), sources)

    def _fork(self, execute: Callable[[], int], needed: Collection[int]) -> int:
        """Have a child that is the user's alone become a program; return its process id."""
        if self._abandoned:
            raise LaunchFailure("USER_SHELL", "given up")
        answer, output = os.pipe2(os.O_CLOEXEC)
        try:
            pid = self._child = os.fork()
        except OSError as error:
            os.close(answer)
            os.close(output)
            raise LaunchFailure.of("USER_SHELL", error, "no process") from error
        if pid == 0:
            try:
                if self._pam is not None:
                    self._pam.limit(self._account)
                close_all_but({output, *needed})  # the lock of the job's record, above all
                os.setsid()
                become(self._account)
                execute()
            except LaunchFailure as failure:
                os.write(output, failure.packed())
            except AccountRefusal as refusal:
                os.write(output, LaunchFailure.of_refusal(refusal).packed())
            except BaseException as error:
                reason = os.strerror(getattr(error, "errno", None) or errno.EINVAL)
                os.write(output, LaunchFailure("USER_SHELL", reason).packed())
            finally:
                os._exit(1)
        os.close(output)
        try:
            content = os.read(answer, _MOST_TOLD)
        finally:
            os.close(answer)
        if content:
            os.kill(pid, signal.SIGKILL)  # its user may have stopped it
            self._child = 0
            os.waitpid(pid, 0)
            raise LaunchFailure.unpacked(content)
        return pid


def _execute(program: str, arguments: list[str], environment: dict[str, str], actions: Sequence[Action]) -> int:
    """Do in this process what the kernel does for a spawned process: never return, or raise :class:`LaunchFailure`."""
    try:
        for kind, fd, *rest in actions:
            opened = os.open(*rest) if kind == os.POSIX_SPAWN_OPEN else fd
            os.dup2(opened, fd if kind == os.POSIX_SPAWN_OPEN else rest[0])
        for number in _ignored_signals():
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execve(program, arguments, environment)
    except (OSError, ValueError) as error:
        raise LaunchFailure.of("USER_SHELL", error, program) from error


def close_all_but(keep: Collection[int]) -> None:
    """Close the descriptors of this process except the three standard streams and ``keep``."""
    for fd in [int(name) for name in os.listdir("/proc/self/fd")]:
        if fd > 2 and fd not in keep:
            with contextlib.suppress(OSError):  # the descriptor of the listing itself
                os.close(fd)
