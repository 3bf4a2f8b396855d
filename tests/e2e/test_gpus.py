"""Jobs of a node with GPUs are told their own: three jobs see three GPUs, by the names that the driver gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from oarpy.transport.local import PipeStream
from oarpy.transport.node import ChannelConfig
from oarpy.transport.steps import StepEnded, StepEvent, StepFailed, Steps
from oarpy.wire.messages import Gpus, Started, TellGpus
from oarpy.wire.steps import StepSpec
from tests.harness.transport_driver import Driver, local_driver
from tests.harness.waiting import until

pytestmark = pytest.mark.e2e

UUIDS = [f"GPU-{number:08x}-1111-2222-3333-444444444444" for number in range(4)]
SHOWN = 'echo "$CUDA_VISIBLE_DEVICES" "$ROCR_VISIBLE_DEVICES" "$OAR_GPU_UUIDS" "$CUDA_DEVICE_ORDER"'


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    """A node with four cards of NVIDIA, as far as its files tell."""
    machine = tmp_path / "machine"
    for number, uuid in enumerate(UUIDS):
        address = f"0000:{number + 16:x}:00.0"
        card = machine / "sys/bus/pci/devices" / address
        told = machine / "proc/driver/nvidia/gpus" / address
        for folder in (card, told):
            folder.mkdir(parents=True)
        (card / "vendor").write_text("0x10de\n")
        (card / "class").write_text("0x030200\n")
        (told / "information").write_text(f"GPU UUID: \t {uuid}\nDevice Minor: \t {number}\n")
    with local_driver(tmp_path, machine_root=str(machine)) as made:
        made.connect()
        yield made


def test_jobs_see_the_gpus_that_are_their_own(driver: Driver) -> None:
    for job, gpus in enumerate(((0,), (2,), (1, 3), ()), 1):
        spec = driver.spec(job, SHOWN, gpus=gpus, environment={"CUDA_VISIBLE_DEVICES": "7"})
        assert driver.run(spec).status == 0
        named = ",".join(UUIDS[gpu] for gpu in gpus)
        assert driver.output(job) == f"{named}  {named} \n"
    assert driver.run(driver.spec(9, SHOWN)).status == 0
    assert driver.output(9).strip() == ""


def test_a_step_sees_what_its_job_sees(driver: Driver, tmp_path: Path) -> None:
    job = driver.spec(1, "exec sleep 600", gpus=(1,))
    driver.start(job)
    driver.expect(Started)
    steps = Steps(lambda _: PipeStream, ChannelConfig(instance=driver.instance, machine_root=str(tmp_path / "machine")))
    step = steps.start(driver.node, StepSpec(job, f"{SHOWN} > step", job.directory))
    events: list[StepEvent] = []

    def over() -> bool:
        events.extend(steps.events())
        return any(isinstance(event, StepEnded | StepFailed) and event.step == step for event in events)

    until(over, "the step has ended")
    steps.close()
    assert (driver.directory / "step").read_text() == f"{UUIDS[1]}  {UUIDS[1]} \n"


def test_the_node_tells_how_many_it_has(driver: Driver) -> None:
    driver.send(TellGpus())
    assert driver.expect(Gpus).number == 4
