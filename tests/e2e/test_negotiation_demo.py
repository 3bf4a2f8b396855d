"""What authors of launchers are shown is what happens: the demo of negotiation, and the launcher of the guide."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from oarpy.local_cluster.sandbox import command, local_nodes, running_sandbox

ROOT = Path(__file__).resolve().parent.parent.parent

pytestmark = pytest.mark.e2e

pytest.importorskip("distributed", reason="the extra dask is not installed")


def test_the_demo_shows_what_it_says(tmp_path: Path) -> None:
    demo = [command("oarpy"), "demo", "--negotiate", "--directory", str(tmp_path / "demo")]
    done = subprocess.run(demo, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "dask: 500 of 500 results are right\n" in done.stdout
    elastic, fixed = re.findall(r"checksum ([0-9a-f]{64}) after", done.stdout)
    assert elastic == fixed


def test_the_launcher_of_the_guide_runs(tmp_path: Path, dsn: str) -> None:
    page = (ROOT / "docs/guides/launchers.md").read_text(encoding="utf-8")
    program = page.partition("```python\n")[2].partition("```")[0]
    greedy = program.replace("HOSTS, WALLTIME = 2,", "HOSTS, WALLTIME = 3,")
    assert greedy != program
    nodes = local_nodes("/host=node[1-2]/cpu={1}/core={1}")
    with running_sandbox(tmp_path / "cluster", {"database": {"url": dsn}}, nodes) as cluster:
        cluster.wait_for_gateway(30)
        done, refused = (
            subprocess.run(
                [sys.executable, "-c", text],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                env={**cluster.environment(), "PYTHONUNBUFFERED": "1"},
                cwd=tmp_path,
                timeout=120,
                check=False,
            )
            for text in (program, greedy)
        )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert re.fullmatch(r"OAR_JOB_ID \d+", lines[0])
    assert (len(lines), lines[-1]) == (4, "ended done")
    assert (refused.returncode, refused.stderr) == (0, "")
    assert refused.stdout.splitlines()[1].startswith("refused "), "and it ends with that"
