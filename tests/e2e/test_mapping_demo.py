"""What ``oarpy demo --mapping`` shows is what happens."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from oarpy.local_cluster.sandbox import command

pytestmark = pytest.mark.e2e


def test_a_walltime_follows_its_job_to_faster_nodes_in_the_demo(tmp_path: Path) -> None:
    demo = [command("oarpy"), "demo", "--mapping", "--directory", str(tmp_path / "demo")]
    done = subprocess.run(demo, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    shown = done.stdout
    # measured on both types, by one job each
    assert re.findall(r"^# Its rates are measured first, by jobs (.+)$", shown, re.MULTILINE) == ["1, 2"]
    # more walltime on the slow nodes, less on the fast ones
    told = r"^Its processes are mapped to cores: 2 of type (\w+)\. Predicted: (\d+) s; walltime: (\d+):(\d+):(\d+)\.$"
    slow, fast = re.findall(told, shown, re.MULTILINE)
    assert (slow[0], fast[0]) == ("slow", "fast")
    for kind in (slow, fast):
        hours, minutes, seconds = map(int, kind[2:])
        assert abs(hours * 3600 + minutes * 60 + seconds - 1.1 * int(kind[1])) <= 2
    assert int(slow[1]) > int(fast[1])
    # the file of the map has what the answer to the same question has
    answer = json.loads(next(line for line in shown.splitlines() if line.startswith('{"stages"')))
    _, _, shown_map = shown.rpartition("$ cat map.")
    lines = re.findall(r"^(\d+) (a|b) (node\d) (\d) 6000$", shown_map, re.MULTILINE)
    assert Counter(size for _, size, _, _ in lines) == answer["assigned"]["fast"]
    assert [int(number) for number, *_ in lines] == list(range(8))
    assert len({(host, core) for _, _, host, core in lines}) == 2
