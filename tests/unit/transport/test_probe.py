"""What a machine is made of, read from files as Linux has them."""

from __future__ import annotations

from pathlib import Path

from oarpy.transport.agent import probe
from oarpy.transport.agent.gpus import gpus


def machine(root: Path) -> str:
    """Two sockets of two cores with two threads each, one thread offline, and a GPU close to the second socket."""
    cpu = root / "sys/devices/system/cpu"
    cpu.mkdir(parents=True)
    (cpu / "online").write_text("0-6\n")
    for number in range(8):
        topology = cpu / f"cpu{number}" / "topology"
        topology.mkdir(parents=True)
        core = number % 4
        (topology / "physical_package_id").write_text(f"{core // 2}\n")
        (topology / "thread_siblings_list").write_text("3\n" if core == 3 else f"{core},{core + 4}\n")
    for device, vendor, kind in (("0000:81:00.0", "0x10de", "0x030200"), ("0000:02:00.0", "0x8086", "0x030000")):
        path = root / "sys/bus/pci/devices" / device
        path.mkdir(parents=True)
        (path / "vendor").write_text(f"{vendor}\n")
        (path / "class").write_text(f"{kind}\n")
        (path / "local_cpulist").write_text("2-3,6\n")
    (root / "proc").mkdir()
    (root / "proc/meminfo").write_text("MemTotal:       65536000 kB\nMemFree: 1 kB\n")
    return str(root)


def test_sockets_cores_threads_memory_and_gpus(tmp_path: Path) -> None:
    root = machine(tmp_path)
    assert probe.cores(root) == [
        {"socket": 0, "threads": [0, 4]},
        {"socket": 0, "threads": [1, 5]},
        {"socket": 1, "threads": [2, 6]},
        {"socket": 1, "threads": [3]},
    ]
    (gpu,) = gpus(root)
    assert (gpu.address, gpu.near, gpu.uuid, gpu.files) == ("0000:81:00.0", [2, 3, 6], "", {})
    assert probe.memory(root) == 64000


def test_a_machine_that_tells_nothing(tmp_path: Path) -> None:
    assert (probe.cores(str(tmp_path)), gpus(str(tmp_path)), probe.memory(str(tmp_path))) == ([], [], 0)


def test_room_is_that_of_the_folder_that_will_hold_the_state(tmp_path: Path) -> None:
    found = probe.disk(str(tmp_path / "not" / "yet"))
    assert found["path"] == str(tmp_path)
    assert found["writable"]
