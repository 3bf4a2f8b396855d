"""The demo of GPUs: each job has its own, who asks for more than is left waits, who leaves one idle is ended."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from oarpy.local_cluster.sandbox import command

pytestmark = pytest.mark.e2e


def test_the_demo_shows_what_it_says(tmp_path: Path) -> None:
    demo = [command("oarpy"), "demo", "--gpus", "--directory", str(tmp_path / "demo")]
    done = subprocess.run(demo, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    shown = done.stdout
    held = dict(re.findall(r"^job (\d+) has (GPU-[0-9a-f]{16})$", shown, re.MULTILINE))
    assert len(held) == len(set(held.values())) == 2
    assert re.search(r"^\$ oarstat --why 4\n.+", shown, re.MULTILINE)
    assert "GPU_IDLE" in shown
    assert "its GPUs were idle for 0:0:15" in shown
    assert [line.split() for line in re.findall(r"^ *1 .* 1 +\d+ +3.0G$", shown, re.MULTILINE)]
    ((cores, gpus),) = re.findall(r"^ *\S+ +(\d+) +(\d+)$", shown.partition("gpu_seconds")[2], re.MULTILINE)
    assert int(gpus) > 0
    assert int(cores) > 0
    assert "Billed (hours)" in shown
