"""The server started in somebody's folder: nothing there is run, whatever it is called."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.harness.bare_environment import bare_environment
from tests.harness.waiting import until

pytestmark = pytest.mark.e2e

PLANTED = ("structlog", "msgspec", "psycopg", "oarpy", "this_is_imported_by_nobody")


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A folder with modules of the names that a server imports, which tell when they are imported."""
    folder = tmp_path / "work"
    folder.mkdir()
    for name in PLANTED:
        text = f"open({str(tmp_path / 'imported')!r}, 'a').write('{name}\\n')\n"
        (folder / f"{name}.py").write_text(text)
    return folder


@pytest.fixture
def gateway_socket() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="oarpy-foreign-"))
    yield folder / "gateway.sock"
    shutil.rmtree(folder)


def answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as one, suppress(OSError):
        one.connect(str(path))
        return True
    return False


@pytest.mark.parametrize("words", [("server",), ("run", "gateway")])
def test_a_server_runs_nothing_of_the_folder_that_it_is_started_in(
    words: tuple[str, ...], planted: Path, gateway_socket: Path, tmp_path: Path
) -> None:
    """Also with a configuration file that is named from there."""
    (planted / "site.toml").write_text(
        f'[database]\nurl = "postgresql://127.0.0.1:1/none"\n[gateway]\nsocket = "{gateway_socket}"\n'
    )
    program = Path(sys.executable).with_name("oarpy")
    process = subprocess.Popen(
        [program, *words],
        cwd=planted,
        env={**bare_environment(), "OARPY_CONFIG": "site.toml"},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        until(lambda: answers(gateway_socket) or (tmp_path / "imported").exists(), "the gateway listens")
        assert not (tmp_path / "imported").exists()
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()
