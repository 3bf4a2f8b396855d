"""The ranks of a job's steps on one node: started, bound to their cores, their output passed on, their ends told.

It speaks with the holder over standard input and output. It gets ``run``, ``signal``, ``end``, ``pmi``, ``wait`` and
``go_on``; it sends ``output``, ``pmi`` and ``ended``. When its input ends, so do its ranks.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import time

from oarpy.frontend.ranks.links import Unpacker, packed
from oarpy.frontend.ranks.surroundings import Worn, open_many_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

_CHUNK = 1 << 16
_LONGEST_PMI = 1 << 14
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
_OF_PROCESSES = ("OARPY_NODE", "OARPY_JOB", "OARPY_SECRET", "OARPY_STEP", "XDG_RUNTIME_DIR")
_OF_GPUS = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "ROCR_VISIBLE_DEVICES", "OAR_GPU_UUIDS")
_OF_THE_NODE = _OF_PROCESSES + _OF_GPUS
"""Variables that each node has its own value of."""
_DIRECT = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-")
"""Of these a word is the name of a program to every shell."""
_IGNORED = (signal.SIGPIPE, signal.SIGXFSZ)
"""By Python, which a rank must not inherit."""
_PASSED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


class _Rank:
    def __init__(self, step: int, rank: int) -> None:
        self.step = step
        self.rank = rank
        self.pid = 0
        self.outputs: dict[int, int] = {}
        self.pmi: socket.socket | None = None
        self.asked = b""


class NodeRanks:
    """All ranks on this node."""

    def __init__(self, source: int = 0, sink: int = 1) -> None:
        self._source = source
        self._sink = sink
        self._messages = Unpacker()
        self._poll = select.epoll()
        self._ranks: dict[tuple[int, int], _Rank] = {}
        self._by_pid: dict[int, _Rank] = {}
        self._by_fd: dict[int, _Rank] = {}
        self._waiting: set[int] = set()
        self._ends: list[tuple[float, int]] = []
        self._environment = dict(os.environ)
        open_many_files()
        self._null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._woken, waking = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        for number in (*_PASSED, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)  # what is meant for the job is for its ranks
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
        self._poll.register(source, select.EPOLLIN)
        self._poll.register(self._woken, select.EPOLLIN)

    def serve(self) -> None:
        """Serve the holder until it has gone, then end all ranks."""
        while True:
            left = min((until for until, _ in self._ends), default=0.0) - time.monotonic() if self._ends else -1
            for fd, _event in self._poll.poll(max(0.0, left) if self._ends else None):
                if fd == self._source:
                    data = os.read(fd, _CHUNK)
                    if not data:
                        return self.end_all()
                    for word, *values in self._messages.feed(data):
                        getattr(self, f"_{word}")(*values)
                elif fd == self._woken:
                    os.read(fd, _CHUNK)
                    self._reap()
                elif fd in self._by_fd:
                    self._hear(fd, self._by_fd[fd])
            self._kill_late()

    def _say(self, *message: Any) -> None:
        content = memoryview(packed(*message))
        while content:
            content = content[os.write(self._sink, content) :]

    def _run(self, step: int, program: dict[str, Any], ranks: Sequence[tuple[int, int, Sequence[int]]]) -> None:
        """Start the ranks: (rank, number on this node, processors)."""
        environment = self._environment_of(program["environment"])
        here = program["environment"].get("OARPY_NODE") == self._environment.get("OARPY_NODE")
        worn = Worn(program["surroundings"], here=here)
        for rank, local, processors in ranks:
            own = {"OAR_STEP_RANK": str(rank), "OAR_STEP_LOCAL_RANK": str(local), "PMI_RANK": str(rank)}
            started = self._ranks[step, rank] = _Rank(step, rank)
            try:
                self._start(started, program, {**environment, **own}, worn, processors)
            except OSError as error:
                status = _NOT_FOUND if error.errno in (errno.ENOENT, errno.ENOTDIR) else _NOT_EXECUTABLE
                what = f"{error.filename or program['words'][0]}: {error.strerror}"
                self._say("ended", step, rank, status << 8, what[:500])
                self._forget(started)

    def _environment_of(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of the client, as they are on this node."""
        there, here = given.get("OARPY_NODE", ""), self._environment.get("OARPY_NODE", "")
        environment = dict(given)
        if there and there != here:
            environment = {name: value.replace(there, here) for name, value in given.items()}
        for name in _OF_THE_NODE:
            environment.pop(name, None)
            if name in self._environment:
                environment[name] = self._environment[name]
        return environment

    def _start(
        self,
        rank: _Rank,
        program: Mapping[str, Any],
        environment: dict[str, str],
        worn: Worn,
        processors: Sequence[int],
    ) -> None:
        rank.pmi, theirs = socket.socketpair()
        given = [theirs.detach()]
        try:
            for stream in (1, 2):
                output, end = os.pipe2(os.O_CLOEXEC)
                rank.outputs[output] = stream
                given.append(end)
            os.chdir(program["directory"])
            os.set_inheritable(given[0], True)
            environment["PMI_FD"] = str(given[0])
            streams = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate((self._null, *given[1:]))]
            worn.put_on(processors)
            try:
                rank.pid = _spawn(program["words"], environment, streams)
            finally:
                worn.take_off()
        finally:
            for fd in given:
                os.close(fd)
            os.chdir("/")
        worn.limit_time(rank.pid)
        self._attend(rank, rank.pmi.fileno())

    def _attend(self, rank: _Rank, pmi: int) -> None:
        """Listen to a rank that was started."""
        self._by_pid[rank.pid] = rank
        for fd in (*rank.outputs, pmi):
            os.set_blocking(fd, False)
            self._by_fd[fd] = rank
            if fd == pmi or rank.step not in self._waiting:
                self._poll.register(fd, select.EPOLLIN)

    def _hear(self, fd: int, rank: _Rank) -> None:
        if fd in rank.outputs:
            self._pass_on(fd, rank)
        elif rank.pmi is not None:
            try:
                data = rank.pmi.recv(_CHUNK)
            except OSError:
                data = b""
            *lines, rank.asked = (rank.asked + data).split(b"\n")
            if lines:
                self._say("pmi", rank.step, rank.rank, [line.decode(errors="replace") for line in lines])
            if not data or len(rank.asked) > _LONGEST_PMI:
                self._close_pmi(rank)

    def _pass_on(self, fd: int, rank: _Rank) -> bool:
        """Send output; return whether there may be more."""
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return False
        if data:
            self._say("output", rank.step, rank.rank, rank.outputs[fd], data)
            return True
        self._close(fd, rank)
        return False

    def _close(self, fd: int, rank: _Rank) -> None:
        del rank.outputs[fd], self._by_fd[fd]
        os.close(fd)

    def _close_pmi(self, rank: _Rank) -> None:
        if rank.pmi is not None:
            self._by_fd.pop(rank.pmi.fileno(), None)
            rank.pmi.close()
            rank.pmi = None

    def _reap(self) -> None:
        """Tell the end of each rank that has ended; what it leaves in its session ends with it."""
        while self._by_pid:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            rank = self._by_pid.pop(pid, None)
            if rank is not None:
                _kill(pid, signal.SIGKILL)
                for fd in list(rank.outputs):
                    while self._pass_on(fd, rank):
                        continue
                self._say("ended", rank.step, rank.rank, status, "")
                self._forget(rank)

    def _forget(self, rank: _Rank) -> None:
        self._close_pmi(rank)
        for fd in list(rank.outputs):
            self._by_fd.setdefault(fd, rank)
            self._close(fd, rank)
        del self._ranks[rank.step, rank.rank]
        if not any(step == rank.step for step, _ in self._ranks):
            self._waiting.discard(rank.step)
            self._ends = [end for end in self._ends if end[1] != rank.step]

    def _of(self, step: int) -> list[_Rank]:
        return [rank for rank in self._by_pid.values() if rank.step == step]

    def _signal(self, step: int, number: int) -> None:
        for rank in self._of(step):
            _kill(rank.pid, number)

    def _end(self, step: int, number: int, grace: float) -> None:
        """End the ranks of a step by a signal, by SIGKILL after a time in seconds."""
        self._signal(step, number)
        self._signal(step, signal.SIGCONT)
        self._ends.append((time.monotonic() + grace, step))

    def _kill_late(self) -> None:
        now = time.monotonic()
        for until, step in list(self._ends):
            if until <= now:
                self._signal(step, signal.SIGKILL)
        self._ends = [end for end in self._ends if end[0] > now]

    def _pmi(self, step: int, rank: int, text: str) -> None:
        """Pass an answer to a rank."""
        found = self._ranks.get((step, rank))
        if found is not None and found.pmi is not None:
            try:
                found.pmi.sendall(text.encode())
            except OSError:
                self._close_pmi(found)

    def _wait(self, step: int) -> None:
        """Read no more output of a step for now."""
        self._waiting.add(step)
        self._turn(step, read=False)

    def _go_on(self, step: int) -> None:
        self._waiting.discard(step)
        self._turn(step, read=True)

    def _turn(self, step: int, *, read: bool) -> None:
        for rank in self._of(step):
            for fd in rank.outputs:
                try:
                    self._poll.register(fd, select.EPOLLIN) if read else self._poll.unregister(fd)
                except OSError:
                    continue  # it is so already

    def end_all(self) -> None:
        for pid in self._by_pid:
            _kill(pid, signal.SIGHUP)
        until = time.monotonic() + 1.0
        while self._by_pid and time.monotonic() < until:
            select.select([self._woken], [], [], 0.1)
            while self._by_pid:
                pid, _ = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    break
                self._by_pid.pop(pid, None)
        for pid in self._by_pid:
            _kill(pid, signal.SIGKILL)


def _kill(pid: int, number: int) -> None:
    """Send a signal to the session of a rank."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):  # over, or another user's by now
        return


def _spawn(words: list[str], environment: dict[str, str], streams: Sequence[Any]) -> int:
    """Start a program with its arguments; one word is text for the user's shell if it is no plain name of a program."""
    shell = environment.get("SHELL") or "/bin/sh"
    if len(words) == 1 and not (_DIRECT.issuperset(words[0]) and _find(words[0], environment)):
        words, program = [os.path.basename(shell), "-c", words[0]], shell
    else:
        program = _find(words[0], environment) or words[0]
    try:
        return _posix_spawn(program, words, environment, streams)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
    return _posix_spawn("/bin/sh", ["sh", program, *words[1:]], environment, streams)


def _posix_spawn(program: str, words: list[str], environment: dict[str, str], streams: Sequence[Any]) -> int:
    return os.posix_spawn(
        program, words, environment, file_actions=streams, setsid=True, setsigmask=[], setsigdef=_IGNORED
    )


def _find(word: str, environment: Mapping[str, str]) -> str:
    """Return the path of a program, empty if there is none."""
    if "/" in word:
        return word if os.path.isfile(word) else ""
    for folder in environment.get("PATH", "").split(os.pathsep):
        path = os.path.join(folder or ".", word)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return ""


def main() -> None:
    """Serve the ranks of this node, on standard input and output, until the input ends."""
    ranks = NodeRanks()
    try:
        ranks.serve()
    except BrokenPipeError:  # the holder has gone, and with it what this process was for
        ranks.end_all()
