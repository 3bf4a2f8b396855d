"""The program that keeps control groups of version 2 from devices: read by an interpreter, and by the kernel's."""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarpy.transport.agent.job import device_walls

Device = tuple[str, int, int]
DEVICES = st.tuples(st.sampled_from("bc"), st.integers(0, 4095), st.integers(0, (1 << 20) - 1))
KINDS = {"b": 1, "c": 2}


def allows(code: bytes, device: Device, access: int) -> bool:
    """Run a program as the kernel does: a register is 64 bits, its argument three words in memory."""
    memory = struct.pack("<3I", access << 16 | KINDS[device[0]], *device[1:])
    instructions = list(struct.iter_unpack("<BBhi", code))
    registers = [0] * 11
    position = 0
    while True:
        operation, places, jump, number = instructions[position]
        target, source = places & 15, places >> 4
        position += 1
        match operation:
            case 0x61:
                assert source == 1
                (registers[target],) = struct.unpack_from("<I", memory, jump)
            case 0x57:
                registers[target] &= number
            case 0x55:
                position += jump if registers[target] != number else 0
            case 0xB7:
                registers[target] = number
            case 0x95:
                return bool(registers[0])
            case _:
                raise AssertionError(f"instruction {operation:#x}")


@given(st.lists(DEVICES, max_size=6), DEVICES, st.integers(1, 7))
def test_the_program_refuses_what_it_is_told_and_nothing_else(
    denied: Sequence[Device], other: Device, access: int
) -> None:
    code = device_walls.program(denied)
    assert not any(allows(code, device, access) for device in denied)
    assert allows(code, other, access) == (other not in denied)


@pytest.mark.skipif(bool(device_walls.takes_programs()), reason="the kernel takes no such program from this process")
@given(st.lists(DEVICES, max_size=200))
def test_the_verifier_of_the_kernel_takes_it(denied: Sequence[Device]) -> None:
    os.close(device_walls._load(device_walls.program(denied)))


@pytest.mark.skipif(bool(device_walls.takes_programs()), reason="the kernel takes no such program from this process")
def test_the_verifier_refuses_a_program_that_reads_elsewhere() -> None:
    code = device_walls._instruction(device_walls._LOAD_WORD, 2, source=1, jump=64) + device_walls.program(())
    with pytest.raises(OSError, match=r"(?i)permission|invalid"):
        device_walls._load(code)
