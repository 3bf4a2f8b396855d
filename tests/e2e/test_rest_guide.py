"""The examples of the guide are run, one after the other, against a process that serves them."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.oarsub_cluster import build
from tests.harness.waiting import until
from tests.harness.web_client import Connection

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = re.findall(r"^```sh\n(.*?)^```", (ROOT / "docs/guides/rest.md").read_text("utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.e2e
@pytest.mark.db
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_examples_work(connection: Connection, cluster_environment: dict[str, str], tmp_path: Path) -> None:
    build(connection)
    path = tmp_path / "web.sock"
    folder = str(Path(sys.executable).parent)
    environment = {
        **cluster_environment,
        "SOCKET": str(path),
        "PATH": f"{folder}:{os.environ['PATH']}",
        "OARPY_GATEWAY_SOCKET": "",
        "OARPY_SUBMISSION_REFUSED_USERS": "nobody",
    }
    with subprocess.Popen([f"{folder}/oarpy", "web", "--listen", str(path)], env=environment) as process:
        try:
            until(lambda: path.exists() or process.poll() is not None, "the socket")
            script = "set -eu -o pipefail\n" + "\n".join(EXAMPLES)
            done = subprocess.run(
                ["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=120, check=False
            )
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
    assert len(EXAMPLES) > 5
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-2000:])
    assert '"name":"mine"' in done.stdout
