"""Walls that keep the processes of a control group from devices, by any name of the device and as any user.

Version 1 of control groups has a list of devices for each group. Version 2 asks a program, made here of a few
instructions for each device and given to the kernel by ``bpf(2)``; it is in force until its group is removed.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import resource
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from oarpy.transport.agent.job.devices import Device

_CALL_NUMBERS = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "ppc64le": 361, "s390x": 351, "loongarch64": 280}
"""Number of the call bpf(2), by machine."""
_LOAD, _ATTACH, _DETACH, _OPEN_BY_ID, _QUERY = 5, 8, 9, 13, 16
_PROGRAM_TYPE = 15
_ATTACH_TYPE = 6
_BESIDE_OTHERS = 2
_ATTRIBUTES = 128
_MOST_PROGRAMS = 64
NO_WALLS = frozenset({errno.ENOSYS, errno.EINVAL, errno.EPERM})
"""Errors by which a kernel says that it takes no programs from this process. Others, as of memory, may pass."""
_MADE = "cgroup.clone_children"
"""The file that marks the list of a group as written; in a hierarchy without cpusets it has no other meaning."""

# Instructions (opcode, registers, jump, number). The kernel gives the program, in r1, the kind of device and of access
# (two halves of one number), the major and the minor number. The program returns in r0 whether the device may be
# opened.
_COPY_NUMBER, _LOAD_WORD, _AND, _JUMP_UNLESS, _EXIT = 0xB7, 0x61, 0x57, 0x55, 0x95
_KINDS = {"b": 1, "c": 2}


def program(denied: Sequence[Device]) -> bytes:
    """Return the instructions that refuse these devices and allow all others."""
    code = [
        _instruction(_LOAD_WORD, 2, source=1, jump=0),
        _instruction(_AND, 2, number=0xFFFF),
        _instruction(_LOAD_WORD, 3, source=1, jump=4),
        _instruction(_LOAD_WORD, 4, source=1, jump=8),
    ]
    for kind, major, minor in denied:
        code += [
            _instruction(_JUMP_UNLESS, 2, jump=4, number=_KINDS[kind]),
            _instruction(_JUMP_UNLESS, 3, jump=3, number=major),
            _instruction(_JUMP_UNLESS, 4, jump=2, number=minor),
            _instruction(_COPY_NUMBER, 0, number=0),
            _instruction(_EXIT),
        ]
    return b"".join([*code, _instruction(_COPY_NUMBER, 0, number=1), _instruction(_EXIT)])


def _instruction(code: int, target: int = 0, *, source: int = 0, jump: int = 0, number: int = 0) -> bytes:
    return struct.pack("<BBhi", code, source << 4 | target, jump, number)


def takes_programs() -> str:
    """Return why the kernel takes no program from this process, empty if it does."""
    try:
        try_program()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def try_program() -> None:
    """Give the kernel a program, and take it back. Raises ``OSError``."""
    os.close(_load(program(())))


def refuse(group: str, denied: Sequence[Device], *, anew: bool = False) -> None:
    """Have a group of version 2 refuse these devices; ``anew``: and no others. Raises ``OSError``.

    Without ``anew`` a group that has a program keeps it: a process that enters late may know less than the group's
    maker.
    """
    directory = os.open(group, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        before = _attached(directory)
        if before and not anew:
            return
        loaded = _load(program(denied))
        try:
            _bpf(_ATTACH, struct.pack("<4I", directory, loaded, _ATTACH_TYPE, _BESIDE_OTHERS))
        finally:
            os.close(loaded)
        for number in before:  # not before the new one is in force
            with contextlib.suppress(FileNotFoundError):
                old = _bpf(_OPEN_BY_ID, struct.pack("<I", number))
                try:
                    _bpf(_DETACH, struct.pack("<4I", directory, old, _ATTACH_TYPE, 0))
                finally:
                    os.close(old)
    finally:
        os.close(directory)


def refuse_by_list(group: str, denied: Sequence[Device], governed: Sequence[Device] | None = None) -> None:
    """Do the same with a group of version 1; ``governed``: again, with all devices that a group may be kept from.

    Raises ``OSError``.
    """
    marker = os.path.join(group, _MADE)
    with open(marker, encoding="ascii") as file:
        if file.read().strip() == "1" and governed is None:
            return
    allowed = [device for device in governed or () if device not in denied]
    for name, devices in (("devices.deny", denied), ("devices.allow", allowed)):
        for kind, major, minor in devices:
            _write(os.path.join(group, name), f"{kind} {major}:{minor} rwm")
    _write(marker, "1")


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def _load(code: bytes) -> int:
    """Give a program to the kernel, which verifies it; return its descriptor. Raises ``OSError``."""
    instructions = ctypes.create_string_buffer(code, len(code))
    licence = ctypes.create_string_buffer(b"GPL")
    addresses = ctypes.addressof(instructions), ctypes.addressof(licence)
    with _unlimited_locked_memory():
        return _bpf(_LOAD, struct.pack("<2I2Q", _PROGRAM_TYPE, len(code) // 8, *addresses))


@contextlib.contextmanager
def _unlimited_locked_memory() -> Iterator[None]:
    """Lift the limit of this process's locked memory, as far as it may: before Linux 5.11 programs count as such."""
    before = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    try:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY,) * 2)
    except (OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (before[1], before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, before)


def _attached(directory: int) -> list[int]:
    """Return the ids of the programs of a group itself."""
    ids = (ctypes.c_uint32 * _MOST_PROGRAMS)()
    values = struct.pack("<4IQI", directory, _ATTACH_TYPE, 0, 0, ctypes.addressof(ids), _MOST_PROGRAMS)
    attributes = ctypes.create_string_buffer(values, _ATTRIBUTES)
    _call(_QUERY, attributes)
    (count,) = struct.unpack_from("<I", attributes, 24)
    return list(ids[:count])


def _bpf(command: int, values: bytes) -> int:
    return _call(command, ctypes.create_string_buffer(values, _ATTRIBUTES))


def _call(command: int, attributes: ctypes.Array[ctypes.c_char]) -> int:
    number = _CALL_NUMBERS.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, f"bpf(2) of {os.uname().machine} is not known")
    result = int(ctypes.CDLL(None, use_errno=True).syscall(number, command, attributes, _ATTRIBUTES))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
