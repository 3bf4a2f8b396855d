"""The limits that confine the process of the rules to its own memory and its connection.

Resource limits bound its memory. A filter of the kernel allows only the system calls that computing needs. The process
opens no file, makes no process and no connection, sends no signal and sets no limit for others. That holds even if it
has the rights of the process that submits. As root, the process also becomes a user without an account: no job of any
user, not even of ``nobody``, may signal it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import signal
import struct
import sys
import time
from contextlib import suppress

_NOBODY = 65534
"""The user if this name space has no user of the id below."""

_FIRST_USER = 3_000_000_000
"""The first user id for such processes: accounts and containers get no numbers above 2^31. Each process has its own."""

_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 22, 38
_FILTER = 2
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000 | errno.EPERM
_NUMBER, _MACHINE = 0, 4
"""The offsets at which the kernel gives a filter the number of the call, and the machine that numbers it."""

# The system calls below are: read write close mmap mprotect munmap brk mremap madvise rt_sigaction rt_sigprocmask
# rt_sigreturn sigaltstack restart_syscall setitimer poll (ppoll) sendto recvfrom futex sched_yield nanosleep
# clock_nanosleep clock_gettime gettimeofday getrandom getpid getppid gettid exit exit_group. For each machine they have
# the kernel's name of it and its numbers.
_CALLS = {
    "x86_64": (
        0xC000003E,
        "0 1 3 9 10 11 12 25 28 13 14 15 131 219 38 7 271 44 45 202 24 35 230 228 96 318 39 110 186 60 231",
    ),
    "aarch64": (
        0xC00000B7,
        "63 64 57 222 226 215 214 216 233 134 135 139 132 128 103 73 206 207 98 124 101 115 113 169 278 172 173 178"
        " 93 94",
    ),
}


def confine(connection: int, memory: int, parent: int) -> None:
    """Confine this process: ``connection`` stays open, it may take ``memory`` MiB more, and ends with ``parent``.

    ``parent`` is 0 when a thread forked it that may end before its process.
    """
    signal.set_wakeup_fd(-1)
    os.setsid()
    _close_all_but(connection)
    sys.path.clear()
    time.localtime()  # reads the zone of this machine, which no rule could
    if os.geteuid() == 0:
        for user in (_FIRST_USER + os.getpid(), _NOBODY):
            with suppress(OSError):  # in a name space without these rights the user stays the same
                _become(user)
                break
    library = ctypes.CDLL(None, use_errno=True)
    if parent:
        library.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)
    _limit(memory)
    _filter_calls(library)


def _become(user: int) -> None:
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def _close_all_but(connection: int) -> None:
    with open(os.devnull, "r+b", buffering=0) as nothing:
        for stream in range(3):
            os.dup2(nothing.fileno(), stream)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != connection:
            with suppress(OSError):  # that of the listing itself
                os.close(int(name))


def _limit(memory: int) -> None:
    with open("/proc/self/statm", "rb") as sizes:
        used = int(sizes.read().split()[0]) * resource.getpagesize()
    limits = {resource.RLIMIT_AS: used + memory * 2**20}
    limits |= dict.fromkeys((resource.RLIMIT_NPROC, resource.RLIMIT_CORE, resource.RLIMIT_FSIZE), 0)
    for limit, value in limits.items():
        highest = resource.getrlimit(limit)[1]
        value = value if highest == resource.RLIM_INFINITY else min(value, highest)
        resource.setrlimit(limit, (value, value))
    # the CPU limit of the process that submits is for its own request
    resource.setrlimit(resource.RLIMIT_CPU, (resource.getrlimit(resource.RLIMIT_CPU)[1],) * 2)


def _filter_calls(library: ctypes.CDLL) -> None:
    """Have every call of the kernel fail that is not listed for this machine; none on a machine without a list."""
    if (listed := _CALLS.get(os.uname().machine)) is None:
        return
    machine, numbers = listed[0], [int(number) for number in listed[1].split()]
    steps = [(_LOAD, 0, 0, _MACHINE), (_JUMP_IF_EQUAL, 0, len(numbers) + 1, machine), (_LOAD, 0, 0, _NUMBER)]
    # each that is equal jumps over the rest of them, and over the failure
    steps += [(_JUMP_IF_EQUAL, len(numbers) - place, 0, number) for place, number in enumerate(numbers)]
    steps += [(_RETURN, 0, 0, _FAIL), (_RETURN, 0, 0, _ALLOW)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
    zero = ctypes.c_ulong(0)
    library.prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), zero, zero, zero)
    if library.prctl(_PR_SET_SECCOMP, ctypes.c_ulong(_FILTER), program) != 0:
        os._exit(1)
