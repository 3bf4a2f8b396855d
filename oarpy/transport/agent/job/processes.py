"""Finding and ending processes through /proc: descendants of a process, and processes that carry a job's mark."""

from __future__ import annotations

import os
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from oarpy.transport.agent.usage import MeasuredUse

MARK = "OARPY_JOB"
NODE = "OARPY_NODE"
"""The environment variable with the state directory of the node that a process of a job was started on."""
SECRET = "OARPY_SECRET"
"""The environment variable with a word that no other user of the node can guess: all of a job there have it."""

_ANY_MARK = f"{MARK}=".encode()
_ENVIRONMENT = 1 << 16

_PAUSE = 0.005
_LOOKS = 20
"""The least number of looks after which a process is said to resist being killed."""
_SECOND_LOOK = 0.002
"""Seconds until processes without an environment are looked at again: a beginning program has none for a moment."""
_FREEZE_PASSES = 20


def mark_of(instance: str, job: int, attempt: int) -> str:
    """Return the value of the environment variable OARPY_JOB in every process of a job."""
    return f"{instance}/{job}/{attempt}"


def pids() -> list[int]:
    """Return all processes of the machine."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _stat(pid: int) -> tuple[str, int] | None:
    """Return (state letter, parent) of a process; None when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    fields = text[text.rfind(b")") + 2 :].split()
    return fields[0].decode(), int(fields[1])


def state(pid: int) -> str:
    """Return the letter of a process's state; empty when it is gone."""
    stat = _stat(pid)
    return stat[0] if stat else ""


def holders(fd: int) -> list[int]:
    """Return the other processes that have a file open too, as far as they can be seen."""
    wanted = os.fstat(fd)
    holding = []
    for pid in pids():
        try:
            names = os.listdir(f"/proc/{pid}/fd") if pid != os.getpid() else ()
            opened = [os.stat(f"/proc/{pid}/fd/{name}") for name in names]
        except OSError:
            continue  # gone, or not ours to look at
        if any((status.st_dev, status.st_ino) == (wanted.st_dev, wanted.st_ino) for status in opened):
            holding.append(pid)
    return holding


def children() -> set[int] | None:
    """Return the children of this process, which has one thread; None when the kernel keeps no list of them.

    One file instead of all of /proc. A child may be missing from it while a sibling of it ends.
    """
    me = os.getpid()
    try:
        with open(f"/proc/{me}/task/{me}/children", "rb") as file:
            return set(map(int, file.read().split()))
    except OSError:
        return None


def offspring() -> list[int]:
    """Return the descendants of this process, which has one thread, by the kernel's lists of children.

    Much cheaper than :func:`descendants` where many processes run; it may miss some while others end. Where the kernel
    keeps no lists, all of /proc is read.
    """
    below: list[int] = []
    me = os.getpid()
    queue = [me]
    while queue:
        pid = queue.pop()
        try:
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                    queue += map(int, file.read().split())
        except OSError:
            if pid == me:
                return descendants(me)
            continue  # gone meanwhile
        below.append(pid)
    return below[1:]


def descendants(root: int) -> list[int]:
    """Return all living descendants of ``root`` (zombies left out), parents before children."""
    children: dict[int, list[int]] = {}
    dead: set[int] = set()
    for pid in pids():
        stat = _stat(pid)
        if stat is None:
            continue
        children.setdefault(stat[1], []).append(pid)
        if stat[0] in "ZX":
            dead.add(pid)
    result: list[int] = []
    queue = [root]
    while queue:
        for child in children.get(queue.pop(), ()):
            queue.append(child)
            if child not in dead:
                result.append(child)
    return result


def send(pids: list[int], number: int) -> int:
    """Send a signal to each process; return how many took it."""
    reached = 0
    for pid in pids:
        try:
            os.kill(pid, number)
            reached += 1
        except OSError:
            continue  # gone meanwhile, or it became another user's by a set-user-id program
    return reached


def catches(pid: int, number: int) -> bool:
    """Tell whether a process has a handler for a signal."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            for line in file:
                if line.startswith(b"SigCgt:"):
                    return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    except (OSError, ValueError, IndexError):
        return False
    return False


def freeze(root: int) -> list[int]:
    """SIGSTOP all descendants of ``root``, until a pass finds no new one; return them."""
    stopped: set[int] = set()
    for _ in range(_FREEZE_PASSES):
        new = [pid for pid in descendants(root) if pid not in stopped]
        if not new:
            break
        send(new, signal.SIGSTOP)
        stopped.update(new)
    return list(stopped)


def kill_descendants(patience: float, statuses: dict[int, int], usage: MeasuredUse | None = None) -> int:
    """Kill and reap every descendant of this process; return how many remain after ``patience`` seconds.

    They are stopped first, so that a process that forks quickly cannot outrun the killing. ``statuses`` takes the wait
    status of each reaped process, ``usage`` its use. If this process itself is stopped, that time does not count: it
    looks at least a fixed number of times.
    """
    deadline = time.monotonic() + patience
    me, looks = os.getpid(), 0
    while reap_children(statuses, usage):
        freeze(me)
        alive = descendants(me)
        send(alive, signal.SIGKILL)
        looks += 1
        if alive and looks > _LOOKS and time.monotonic() > deadline:
            return len(alive)
        time.sleep(_PAUSE)
    return 0


def kill_orphans(spared: set[int], patience: float) -> None:
    """Kill all descendants of this process except the children in ``spared`` and the processes below them."""
    deadline = time.monotonic() + patience
    me = os.getpid()
    while time.monotonic() < deadline:
        adopted = [pid for pid in descendants(me) if pid not in spared and parent(pid) == me]
        if not adopted:
            return
        for pid in adopted:
            send([*freeze(pid), pid], signal.SIGKILL)
        time.sleep(_PAUSE)


def parent(pid: int) -> int:
    """Return the parent of a process, 0 when it is gone."""
    stat = _stat(pid)
    return stat[1] if stat else 0


def reap_children(statuses: dict[int, int], usage: MeasuredUse | None = None) -> bool:
    """Reap every dead child, its wait status into ``statuses``, its use into ``usage``.

    Returns whether children are left.
    """
    try:
        while True:
            pid, status, use = os.wait4(-1, os.WNOHANG)
            if pid == 0:
                return True
            statuses[pid] = status
            if usage is not None:
                usage.add_reaped(use)
    except ChildProcessError:
        return False


def _has_program(pid: int) -> bool:
    """Tell whether a process runs a program, which zombies and the kernel's own do not, and is ours to look at."""
    try:
        return bool(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return False


def _environment(pid: int) -> bytes:
    """Return all that a process was started with; nothing when it is gone, or not ours to look at."""
    try:
        fd = os.open(f"/proc/{pid}/environ", os.O_RDONLY)
    except OSError:
        return b""
    text = b""
    try:
        while part := os.read(fd, _ENVIRONMENT):
            text += part
    except OSError:
        return b""
    finally:
        os.close(fd)
    return text


def leads_terminal(pid: int) -> bool:
    """Tell whether a process leads a session that has a terminal, as an interactive shell does."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return False
    session, terminal = text[text.rfind(b")") + 2 :].split()[3:5]
    return int(session) == pid and terminal != b"0"


def marked(marks: list[str], spared: set[int], node: str = "") -> dict[str, list[int]]:
    """Return the living processes that carry one of ``marks``, by mark. Zombies have no environment.

    With ``node``, processes that were started on another node are left out: several nodes may share a machine.
    """
    wanted = {f"{MARK}={mark}".encode(): mark for mark in marks}
    anywhere, here = f"{NODE}=".encode(), f"{NODE}={node}".encode()
    by_mark: dict[str, list[int]] = {}

    def search(candidates: Iterable[int]) -> list[int]:
        """Return the candidates that had no environment."""
        bare = []
        for pid in candidates:
            text = _environment(pid)
            if not text and _has_program(pid):
                bare.append(pid)
            # Most processes are of no job: their entries are not looked at one by one.
            entries = text.split(b"\0") if _ANY_MARK in text else []
            mine = [wanted[entry] for entry in entries if entry in wanted]
            if mine and not (node and any(entry.startswith(anywhere) and entry != here for entry in entries)):
                by_mark.setdefault(mine[0], []).append(pid)
        return bare

    if bare := search(pid for pid in pids() if pid not in spared):
        time.sleep(_SECOND_LOOK)
        search(bare)
    return by_mark


def kill_marked(marks: list[str], spared: set[int], patience: float, node: str = "") -> dict[str, tuple[int, int]]:
    """Kill -9 all processes that :func:`marked` finds, again and again until none is left.

    Returns for each mark (processes killed, processes left after ``patience`` seconds).
    """
    killed: dict[str, set[int]] = {mark: set() for mark in marks}
    left: dict[str, list[int]] = {}
    deadline = time.monotonic() + patience
    while True:
        left = marked(marks, spared, node)
        if not left:
            break
        for mark, pids in left.items():
            send(pids, signal.SIGKILL)
            killed[mark].update(pids)
        if time.monotonic() > deadline:
            break
        time.sleep(_PAUSE)
    return {mark: (len(killed[mark]), len(left.get(mark, ()))) for mark in marks}


def ancestors() -> set[int]:
    """This process and all processes above it."""
    result: set[int] = set()
    pid = os.getpid()
    while pid > 0 and pid not in result:
        result.add(pid)
        stat = _stat(pid)
        pid = stat[1] if stat else 0
    return result
