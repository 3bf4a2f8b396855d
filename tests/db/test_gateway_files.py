"""A gateway that may open few files serves fewer at a time, or says that it cannot serve.

What raw clients send as an environment is checked too.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from oarpy.wire.frames import Channel, pack_message
from tests.harness.gateway_process import TIMEOUT, GatewayProcess, final, gateway, request
from tests.harness.oarsub_cluster import build, settings
from tests.harness.sample_cluster import Connection
from tests.harness.waiting import until

pytestmark = pytest.mark.db


@pytest.fixture
def environment(connection: Connection, cluster_environment: dict[str, str]) -> dict[str, str]:
    build(connection)
    return {**cluster_environment, **settings(), "OARPY_GATEWAY_WORKERS": "1"}


@contextmanager
def limited(environment: dict[str, str], folder: Path, files: int) -> Iterator[GatewayProcess]:
    """Run a gateway that may open so many files and no more."""
    own = {**environment, "OARPY_GATEWAY_SOCKET": str(folder / "gateway.sock")}
    command = f"ulimit -Sn {min(files, 128)}; ulimit -Hn {files}; exec {sys.executable} -m oarpy.gateway"
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(["/bin/sh", "-c", command], env=own, cwd="/", stderr=log)
    found = GatewayProcess(folder, process)  # type: ignore[arg-type]
    try:
        yield found
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("files", [128, 256])
def test_a_gateway_with_few_files_serves_all_the_same(environment: dict[str, str], tmp_path: Path, files: int) -> None:
    with limited(environment, tmp_path, files) as running:
        until(lambda: running.listens() or running.process.poll() is not None, "the gateway listens")
        assert running.process.poll() is None, running.log()
        held = [running.connect() for _ in range(files // 4)]
        assert running.answers(), "with others that say nothing"
        for connection in held:
            connection.close()
        assert running.answers()


def test_a_gateway_with_too_few_files_says_so_and_ends(environment: dict[str, str], tmp_path: Path) -> None:
    with limited(environment, tmp_path, 64) as running:
        assert running.process.wait(TIMEOUT) != 0
        (line,) = running.log().splitlines()
        assert line.startswith("oarpy gateway: the gateway may open 64 files and needs ")
        assert "ulimit -n" in line
    assert not list(tmp_path.glob("gateway*")), "no socket is left"


@pytest.mark.parametrize(
    "variables", [{"A=B": "1"}, {"BIG": "x" * 200_000}, {f"V{name}": "x" * 100_000 for name in range(20)}]
)
def test_an_environment_that_no_program_can_have_is_refused_at_submission(
    connection: Connection, environment: dict[str, str], variables: dict[str, str]
) -> None:
    with gateway(environment) as running, running.connect() as bare:
        bare.sendall(pack_message({**request("oarsub", "-d", "/tmp", "date"), "environment": variables}))
        assert final(Channel(bare)) == {"exit": 2}
    assert connection.execute("SELECT count(*) FROM submissions").fetchone() == (0,)
