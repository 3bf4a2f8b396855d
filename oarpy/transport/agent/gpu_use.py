"""How busy the graphics processors of this machine are: NVML tells it for NVIDIA's, the kernel for AMD's.

Drivers may hang for as long as a card does. So a process of its own asks, and ends: nothing then keeps the driver in
use, and the agent goes on even if that process hangs.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os

from oarpy.transport.agent.child_answer import ChildAnswer
from oarpy.transport.agent.gpus import AMD, Gpu, gpus, read_line
from oarpy.wire.messages import GpuUse, MeasuredGpu

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from select import epoll

    from oarpy.transport.agent.outbox import Outbox

_PATIENCE = 20
"""Seconds that drivers have for their answers."""
_LIBRARY = "libnvidia-ml.so.1"


class _Rates(ctypes.Structure):
    """The load of a card and of its memory, in percent of the driver's last period."""

    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Memory(ctypes.Structure):
    """Bytes of a card's memory."""

    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class GpuMeter:
    """Has a process measure GPUs, one at a time: while it waits for a driver, no other process asks."""

    def __init__(self, root: str, poll: epoll, outbox: Outbox, adopt: Callable[[int], None]) -> None:
        self._root = root
        self._outbox = outbox
        self._child = ChildAnswer(poll, adopt)

    @property
    def fd(self) -> int:
        """Descriptor that is readable when something was measured, -1 while no process measures."""
        return self._child.fd

    def measure(self, numbers: Iterable[int]) -> None:
        """Begin to measure GPUs, by their numbers; without effect while others are measured. Raises ``OSError``."""
        wanted = set(numbers)
        self._child.begin(lambda: _encoded(measured(self._root, wanted)), _PATIENCE)

    def hear(self) -> None:
        """Take in a part of the answer; tell the server when that was all."""
        answer = self._child.hear()
        if answer is None:
            return
        measurements = []
        with contextlib.suppress(ValueError):  # nothing, or cut: the process did not come to its end
            measurements = json.loads(answer)
        self._outbox.say(GpuUse(tuple(MeasuredGpu(*values) for values in measurements)))


def _encoded(measurements: Iterable[MeasuredGpu]) -> bytes:
    return json.dumps([[vars(gpu)[name] for name in MeasuredGpu.CHECKS] for gpu in measurements]).encode()


def measured(root: str, numbers: Collection[int]) -> list[MeasuredGpu]:
    """Return the measurements of the machine's GPUs with these numbers; GPUs without any are left out."""
    wanted = {number: card for number, card in enumerate(gpus(root)) if number in numbers}
    of_nvidia = [(number, card) for number, card in wanted.items() if card.vendor != AMD]
    measured_gpus = [_of_amd(root, number, card) for number, card in wanted.items() if card.vendor == AMD]
    with contextlib.suppress(OSError, AttributeError, ImportError):  # no such library, an older one, no ctypes
        measured_gpus += _of_nvidia(root, of_nvidia) if of_nvidia else ()
    return [gpu for gpu in measured_gpus if (gpu.busy, gpu.memory) != (None, None)]


def _of_amd(root: str, number: int, card: Gpu) -> MeasuredGpu:
    folder = os.path.join(root, "sys/bus/pci/devices", card.address)
    busy, used, total = (
        int(text) if text.isdigit() else None
        for text in (
            read_line(os.path.join(folder, name))
            for name in ("gpu_busy_percent", "mem_info_vram_used", "mem_info_vram_total")
        )
    )
    return MeasuredGpu(number, None if busy is None else min(busy, 100), used, total)


def _of_nvidia(root: str, cards: list[tuple[int, Gpu]]) -> Iterator[MeasuredGpu]:
    library = ctypes.CDLL(_LIBRARY if root == "/" else os.path.join(root, "usr/lib", _LIBRARY))
    if library.nvmlInit_v2() != 0:
        return
    for number, card in cards:
        handle, rates, memory = _handle(library, card), _Rates(), _Memory()
        if handle is None:
            continue
        busy = min(rates.gpu, 100) if _told(library.nvmlDeviceGetUtilizationRates, handle, rates) else None
        known = _told(library.nvmlDeviceGetMemoryInfo, handle, memory)
        yield MeasuredGpu(number, busy, memory.used if known else None, memory.total if known else None)
    library.nvmlShutdown()


def _handle(library: ctypes.CDLL, card: Gpu) -> ctypes.c_void_p | None:
    """Return how NVML calls a card, or a part of it; None if it knows none. It does not tell how busy a part is."""
    handle, part, most = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint()
    if library.nvmlDeviceGetHandleByPciBusId_v2(card.address.encode(), ctypes.byref(handle)) != 0:
        return None
    if card.instance is None:
        return handle
    if library.nvmlDeviceGetMaxMigDeviceCount(handle, ctypes.byref(most)) != 0:
        return None
    for place in range(most.value):  # places may be empty
        if library.nvmlDeviceGetMigDeviceHandleByIndex(handle, place, ctypes.byref(part)) != 0:
            continue
        ids = ctypes.c_uint(), ctypes.c_uint()
        library.nvmlDeviceGetGpuInstanceId(part, ctypes.byref(ids[0]))
        library.nvmlDeviceGetComputeInstanceId(part, ctypes.byref(ids[1]))
        if (ids[0].value, ids[1].value) == card.instance:
            return part
    return None


def _told(question: Callable[..., int], handle: ctypes.c_void_p, answer: ctypes.Structure) -> bool:
    """Have the driver fill in an answer about a card; False when it does not."""
    return question(handle, ctypes.byref(answer)) == 0
