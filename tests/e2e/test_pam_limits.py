"""Jobs, steps and interactive shells start with the limits of a PAM service; what PAM refuses is not started."""

from __future__ import annotations

import ctypes.util
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from oarpy.transport.inbox import Inbox
from oarpy.transport.local import LocalTransport, PipeStream
from oarpy.transport.node import ChannelConfig, NodeAddress
from oarpy.transport.steps import StepEnded, StepEvent, StepFailed, StepOutput, Steps
from oarpy.wire.steps import StepSpec
from tests.harness.transport_driver import Driver, end_all
from tests.harness.waiting import until

SERVICES = Path("/etc/pam.d")
MODULES = [*Path("/lib").glob("*/security/pam_limits.so"), *Path("/lib64").glob("security/pam_limits.so")]

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can run jobs of other users"),
    pytest.mark.skipif(
        not (MODULES and SERVICES.is_dir() and ctypes.util.find_library("pam")), reason="no PAM with pam_limits here"
    ),
]

SHOWN = "ulimit -Sn; ulimit -Hn; awk '/Max processes/ {print $3}' /proc/self/limits; id -u; id -ru"
LIMITED = "61\n62\n4242\n5\n5\n"
ACCOUNT = "account required pam_permit.so"


@pytest.fixture
def directory() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="oarpy-pam-"))
    made.chmod(0o755)
    (made / "limits").write_text("games soft nofile 61\ngames hard nofile 62\ngames - nproc 4242\n")
    (made / "work").mkdir()
    (made / "work").chmod(0o777)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def service() -> Iterator[Path]:
    """The file of a service of the test's own, with a name that nobody else has."""
    path = SERVICES / f"oarpy-test-{uuid.uuid4().hex}"
    yield path
    path.unlink(missing_ok=True)


@pytest.fixture
def node(directory: Path, service: Path) -> Iterator[Callable[[], Driver]]:
    """Connects a node on which jobs of games start with the limits of the service."""
    inbox = Inbox()
    config = ChannelConfig(instance=directory.name, pam_service=service.name)
    transport = LocalTransport(inbox, config)

    def connect() -> Driver:
        driver = Driver(
            transport, NodeAddress("node1", str(directory / "state")), directory / "work", config.instance, "games"
        )
        driver.connect()
        return driver

    yield connect
    transport.close()
    inbox.close()
    end_all(config.instance)


def limiting(directory: Path) -> str:
    """The lines of a service with the limits of the test."""
    return f"{ACCOUNT}\nsession required pam_limits.so conf={directory / 'limits'}\n"


def test_a_job_its_steps_and_its_shell_start_with_the_limits(
    node: Callable[[], Driver], directory: Path, service: Path
) -> None:
    service.write_text(limiting(directory))
    driver = node()
    assert driver.run(driver.spec(1, SHOWN)).status == 0
    assert driver.output(1) == LIMITED
    assert driver.run(driver.spec(2, "cat /proc/self/limits")).status == 0  # a program without a shell
    assert "61                   62" in driver.output(2)
    interactive = driver.spec(3, "", keep=60.0)
    driver.start(interactive)
    driver.started(3)
    steps = Steps(lambda _: PipeStream, ChannelConfig(instance=driver.instance, pam_service=service.name))
    events: list[StepEvent] = []

    def ended() -> bool:
        events.extend(steps.events())
        return any(isinstance(one, StepEnded | StepFailed) and one.step == step for one in events)

    for lead in (False, True):
        step = steps.start(driver.node, StepSpec(interactive, SHOWN, interactive.directory, lead=lead))
        until(ended, "the step has ended")
        said = [one.data for one in events if isinstance(one, StepOutput) and one.step == step]
        assert b"".join(said).decode() == LIMITED
    assert driver.ended(3).status == 0
    steps.close()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "there is no /etc/pam.d/"),
        (f"{ACCOUNT}\nsession required pam_deny.so\n", "games"),
        ("account required pam_deny.so\nsession required pam_permit.so\n", "games"),
        (f"{ACCOUNT}\nsession required pam_no_such_module.so\n", "games"),
    ],
)
def test_a_job_that_pam_refuses_is_not_started(
    node: Callable[[], Driver], service: Path, content: str | None, said: str
) -> None:
    if content is not None:
        service.write_text(content)
    driver = node()
    ended = driver.run(driver.spec(1, "echo ran"))
    assert (ended.reason, ended.status, ended.left, ended.by_node) == ("PAM", None, 0, True)
    assert said in ended.detail
    assert not (driver.directory / "out.1").exists() or driver.output(1) == ""
    service.write_text(f"{ACCOUNT}\nsession required pam_permit.so\n")
    assert driver.run(driver.spec(2, "exit 3")).status == 3 << 8


def test_a_pam_that_hangs_is_ended_at_the_walltime(node: Callable[[], Driver], service: Path) -> None:
    service.write_text(f"{ACCOUNT}\nsession required pam_exec.so /bin/sleep 600\n")
    driver = node()
    ended = driver.run(driver.spec(1, "echo ran", walltime=1, kill_grace=0.0))
    assert (ended.reason, ended.status, ended.left) == ("walltime", None, 0)
    assert driver.output(1) == ""
