"""Which GPUs a machine has, how programs are told of them, and which of their files a job may not open."""

from __future__ import annotations

from pathlib import Path

import pytest

from oarpy.model.setting_values import DEVICE_RULES, read_device_rules
from oarpy.transport.agent.gpus import gpus, variables
from oarpy.transport.agent.job.devices import Devices

UUIDS = (
    "GPU-6d9b1f3c-2ab4-11e9-b210-d663bd873d93",
    "GPU-0f000000-0000-4000-8000-00000000000f",
)
RULES = read_device_rules(DEVICE_RULES)


def card(root: Path, address: str, vendor: str, drm: dict[str, str]) -> Path:
    path = root / "sys/bus/pci/devices" / address
    path.mkdir(parents=True)
    (path / "vendor").write_text(f"{vendor}\n")
    (path / "class").write_text("0x030200\n")
    for name, numbers in drm.items():
        (path / "drm" / name).mkdir(parents=True)
        (path / "drm" / name / "dev").write_text(f"{numbers}\n")
    return path


def nvidia(root: Path, address: str, uuid: str, minor: int, drm: dict[str, str]) -> None:
    card(root, address, "0x10de", drm)
    told = root / "proc/driver/nvidia/gpus" / address
    told.mkdir(parents=True)
    lines = ["Model: \t\t A card", f"GPU UUID: \t {uuid}", f"Bus Location: \t {address}", f"Device Minor: \t {minor}"]
    (told / "information").write_text("\n".join([*lines, ""]))


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Two cards of NVIDIA, whose driver counts them the other way round, and one of AMD."""
    nvidia(tmp_path, "0000:3b:00.0", UUIDS[0], 1, {"card1": "226:1", "renderD129": "226:129"})
    amd = card(tmp_path, "0000:5e:00.0", "0x1002", {"card2": "226:2", "renderD130": "226:130"})
    (amd / "unique_id").write_text("c0ffee1234\n")
    nvidia(tmp_path, "0000:86:00.0", UUIDS[1], 0, {"card0": "226:0", "renderD128": "226:128"})
    return tmp_path


def divide(root: Path, minor: int, instances: dict[tuple[int, int], tuple[int, int]]) -> None:
    """Divide a card as NVIDIA's driver shows it: minor numbers of the rights to use the two instances of each part."""
    (root / "proc/devices").write_text("Character devices:\n195 nvidia-frontend\n511 nvidia-caps\n\nBlock devices:\n")
    mig = root / f"proc/driver/nvidia/capabilities/gpu{minor}/mig"
    for (gpu_instance, compute_instance), rights in instances.items():
        inner = mig / f"gi{gpu_instance}/ci{compute_instance}"
        inner.mkdir(parents=True)
        for folder, right in zip((inner.parent, inner), rights, strict=True):
            (folder / "access").write_text(f"DeviceFileMinor: {right}\nDeviceFileMode: 292\nDeviceFileModify: 1\n")


@pytest.fixture
def divided(machine: Path) -> Path:
    """The same machine; its first card is divided into three parts, of which two are of one GPU instance."""
    divide(machine, 1, {(11, 0): (228, 229), (2, 1): (147, 149), (2, 0): (147, 148)})
    return machine


def test_the_parts_of_a_divided_card_are_gpus(divided: Path) -> None:
    found = gpus(str(divided))
    parts = [f"MIG-{UUIDS[0]}/2/0", f"MIG-{UUIDS[0]}/2/1", f"MIG-{UUIDS[0]}/11/0"]
    assert [gpu.uuid for gpu in found] == [*parts, "GPU-000000c0ffee1234", UUIDS[1]]
    assert [gpu.instance for gpu in found] == [(2, 0), (2, 1), (11, 0), None, None]
    assert variables(found, (1, 4))["CUDA_VISIBLE_DEVICES"] == f"{parts[1]},{UUIDS[1]}"


def test_a_job_may_not_open_the_other_parts_of_its_card(divided: Path) -> None:
    devices = Devices(str(divided), RULES)
    others = [("c", 195, 0)] + [("c", 226, minor) for minor in (0, 2, 128, 130)]
    assert devices.denied((0,)) == others + [("c", 511, minor) for minor in (149, 228, 229)]
    assert devices.denied((2,)) == others + [("c", 511, minor) for minor in (147, 148, 149)]
    whole = Devices(str(divided), RULES).denied((4,))
    assert ("c", 195, 1) in whole
    assert [device for device in whole if device[1] == 511] == [("c", 511, n) for n in (147, 148, 149, 228, 229)]


def test_uuids_and_files_as_the_drivers_tell_them(machine: Path) -> None:
    found = gpus(str(machine))
    assert [gpu.uuid for gpu in found] == [UUIDS[0], "GPU-000000c0ffee1234", UUIDS[1]]
    assert found[0].files == {"/dev/dri/card1": (226, 1), "/dev/dri/renderD129": (226, 129), "/dev/nvidia1": (195, 1)}


def test_programs_are_told_uuids_of_their_maker(machine: Path) -> None:
    found = gpus(str(machine))
    told = variables(found, (1, 2))
    assert told == {
        "CUDA_VISIBLE_DEVICES": UUIDS[1],
        "ROCR_VISIBLE_DEVICES": "GPU-000000c0ffee1234",
        "OAR_GPU_UUIDS": f"GPU-000000c0ffee1234,{UUIDS[1]}",
    }
    assert set(variables(found, ()).values()) == {""}


def test_a_driver_without_uuids_has_its_cards_counted_as_cuda_is_told_to(machine: Path) -> None:
    (machine / "proc/driver/nvidia/gpus/0000:86:00.0/information").write_text("GPU UUID: \t GPU-????????-????\n")
    told = variables(gpus(str(machine)), (2,))
    assert (told["CUDA_VISIBLE_DEVICES"], told["CUDA_DEVICE_ORDER"]) == ("1", "PCI_BUS_ID")
    assert (told["ROCR_VISIBLE_DEVICES"], told["OAR_GPU_UUIDS"]) == ("", "")
    assert variables(gpus(str(machine)), (2,), walled=True)["CUDA_VISIBLE_DEVICES"] == "0"


def test_a_machine_that_tells_nothing_has_the_numbers_that_the_site_gave(tmp_path: Path) -> None:
    told = variables(gpus(str(tmp_path)), (3, 1))
    assert {told["CUDA_VISIBLE_DEVICES"], told["ROCR_VISIBLE_DEVICES"]} == {"1,3"}
    assert variables(gpus(str(tmp_path)), (3, 1), walled=True)["CUDA_VISIBLE_DEVICES"] == "0,1"


def test_a_job_may_not_open_the_files_of_other_gpus(machine: Path) -> None:
    devices = Devices(str(machine), RULES)
    assert devices.denied((0,)) == [("c", 195, 0)] + [("c", 226, minor) for minor in (0, 2, 128, 130)]
    assert devices.denied((0, 1, 2)) == []
    assert len(devices.denied(())) == 8
    assert devices.denied(None) == []
    assert Devices(str(machine), ()).denied((0,)) == []


def test_the_first_rule_that_fits_counts(machine: Path) -> None:
    shared = Devices(str(machine), read_device_rules(["/dev/dri/renderD*: any", "/dev/dri/*: own"]))
    assert shared.denied((0,)) == [("c", 226, 0), ("c", 226, 2)]
    assert len(shared.denied(())) == 6
