"""How busy GPUs are is asked of NVML, or read below /sys; a driver that hangs holds up nobody."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from oarpy.transport.agent import gpu_use
from oarpy.wire.messages import GpuUse, MeasuredGpu, MeasureGpus, Ping, Pong
from tests.harness.transport_driver import Driver, local_driver

pytestmark = pytest.mark.e2e

NVML = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct { char address[64]; unsigned int ids[2]; } Card;
typedef struct { unsigned int gpu, memory; } Rates;
typedef struct { unsigned long long total, free, used; } Memory;
static Card cards[32];
static int seen;

int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *address, Card **card) {
    snprintf(cards[seen].address, 32, "%s", address);
    *card = &cards[seen++];
    return 0;
}
int nvmlDeviceGetMaxMigDeviceCount(Card *card, unsigned int *most) { *most = 7; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(Card *card, unsigned int place, Card **part) {
    if (place % 2 == 0) return 6;
    snprintf(cards[seen].address, 64, "%s.%u", card->address, place);
    cards[seen].ids[0] = place, cards[seen].ids[1] = place == 5;
    *part = &cards[seen++];
    return 0;
}
int nvmlDeviceGetGpuInstanceId(Card *part, unsigned int *id) { *id = part->ids[0]; return 0; }
int nvmlDeviceGetComputeInstanceId(Card *part, unsigned int *id) { *id = part->ids[1]; return 0; }
static long told(Card *card, const char *what) {
    char path[512];
    long value = -1;
    snprintf(path, sizeof path, "%s/%s.%s", STATE, card->address, what);
    FILE *file = fopen(path, "r");
    if (file) { if (fscanf(file, "%ld", &value) != 1) for (;;) pause(); fclose(file); }
    return value;
}
int nvmlDeviceGetUtilizationRates(Card *card, Rates *rates) {
    long busy = told(card, "busy");
    rates->gpu = busy;
    return busy < 0 ? 3 : 0;
}
int nvmlDeviceGetMemoryInfo(Card *card, Memory *memory) {
    long used = told(card, "used");
    memory->used = used;
    memory->total = 1 << 30;
    return used < 0 ? 3 : 0;
}
"""
AMD = "0000:30:00.0"


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Three cards of NVIDIA, and one of AMD as its driver shows it (recorded of an Instinct MI210)."""
    made = tmp_path / "machine"
    for address in ("0000:10:00.0", "0000:11:00.0", "0000:12:00.0", AMD):
        card = made / "sys/bus/pci/devices" / address
        card.mkdir(parents=True)
        (card / "vendor").write_text("0x1002\n" if address == AMD else "0x10de\n")
        (card / "class").write_text("0x030200\n" if address != AMD else "0x038000\n")
    shown = {"gpu_busy_percent": 37, "mem_info_vram_used": 11198464, "mem_info_vram_total": 68702699520}
    for name, value in shown.items():
        (made / "sys/bus/pci/devices" / AMD / name).write_text(f"{value}\n")
    return made


@pytest.fixture
def library(machine: Path) -> Path:
    """The folder of what a library of NVIDIA, made for this machine, tells."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no gcc to make a library of NVIDIA with")
    folder, state = machine / "usr/lib", machine / "told"
    folder.mkdir(parents=True)
    state.mkdir()
    (folder / "nvml.c").write_text(NVML)
    words = [compiler, "-shared", "-fPIC", f'-DSTATE="{state}"', "-o", "libnvidia-ml.so.1", "nvml.c"]
    subprocess.run(words, cwd=folder, check=True)
    return state


@pytest.fixture
def driver(machine: Path, tmp_path: Path) -> Iterator[Driver]:
    with local_driver(tmp_path, machine_root=str(machine)) as made:
        made.connect()
        yield made


def test_what_drivers_tell_is_told(driver: Driver, library: Path) -> None:
    (library / "0000:10:00.0.busy").write_text("83")
    (library / "0000:10:00.0.used").write_text("4096")
    (library / "0000:12:00.0.used").write_text("0")
    driver.send(MeasureGpus((0, 1, 2, 3, 9)))
    told = {gpu.number: gpu for gpu in driver.expect(GpuUse).gpus}
    assert told == {
        0: MeasuredGpu(0, 83, 4096, 1 << 30),
        2: MeasuredGpu(2, None, 0, 1 << 30),
        3: MeasuredGpu(3, 37, 11198464, 68702699520),
    }
    driver.send(MeasureGpus((3,)))
    assert [gpu.number for gpu in driver.expect(GpuUse).gpus] == [3]


def test_the_memory_of_parts_of_a_card_is_told(driver: Driver, library: Path, machine: Path) -> None:
    told = machine / "proc/driver/nvidia/gpus/0000:11:00.0"
    told.mkdir(parents=True)
    (told / "information").write_text("Device Minor: \t 1\n")
    for part in ("gi3/ci0", "gi5/ci0", "gi5/ci1"):
        (machine / "proc/driver/nvidia/capabilities/gpu1/mig" / part).mkdir(parents=True)
    (library / "0000:11:00.0.5.used").write_text("512")
    (library / "0000:11:00.0.3.used").write_text("64")
    driver.send(MeasureGpus((1, 2, 3)))
    assert driver.expect(GpuUse).gpus == (MeasuredGpu(1, None, 64, 1 << 30), MeasuredGpu(3, None, 512, 1 << 30))


def test_a_driver_that_hangs_holds_up_nobody(driver: Driver, library: Path, machine: Path) -> None:
    (library / "0000:10:00.0.busy").write_text("hangs")
    driver.send(MeasureGpus((0,)))
    driver.send(MeasureGpus((3,)))
    driver.send(Ping("there"))
    assert driver.expect(Pong).token == "there"
    assert not any(isinstance(report, GpuUse) for _, report in driver.log), "one asks at a time"
    assert gpu_use.measured(str(machine), {3}) == [MeasuredGpu(3, 37, 11198464, 68702699520)]


def test_without_the_library_those_of_amd_are_told(driver: Driver) -> None:
    driver.send(MeasureGpus((0, 3)))
    assert [gpu.number for gpu in driver.expect(GpuUse).gpus] == [3]
