"""What the demo shows is what happens."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from oarpy.local_cluster.sandbox import command

pytestmark = pytest.mark.e2e


def test_reservations_move_and_promises_improve_in_the_demo(tmp_path: Path) -> None:
    """A window, a strict reservation that moves it, two offers, one that is accepted, and the way forward again."""
    demo = [command("oarpy"), "demo", "--directory", str(tmp_path / "demo")]
    done = subprocess.run(demo, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    shown = re.findall(r"^(\d+) ready=(\S+) deadline=\S+ start=(\S+) state=movable$", done.stdout, re.MULTILINE)
    (job, ready, first), moved, forward = shown
    assert (first, moved[2] > first, forward) == (ready, True, (job, ready, first))
    assert re.findall(r"^OAR_OFFER_ID=.* phi=(\S+)$", done.stdout, re.MULTILINE) == ["0.50", "1.50"]
    assert done.stdout.count("RESERVATION_MOVED: it starts at ") >= 1
    assert "$ oarsub --accept " in done.stdout
    bags_are_promised(done.stdout)


def bags_are_promised(shown: str) -> None:
    """Hold what is told of two bags against each other: a deadline met, one missed, and a promise that improves."""
    promises = re.findall(r"^promised completion : (.+)\ndeadline (.+)$", shown, re.MULTILINE)
    assert [words.split(" by ")[0] for _, words in promises] == ["met", "missed"]
    told = re.findall(r"^.* (PROMISED|IMPROVED) : promise (.+), expected .+$", shown, re.MULTILINE)
    (_, first), (_, better) = told
    assert [kind for kind, _ in told] == ["PROMISED", "IMPROVED"]
    assert (first, better < first) == (promises[1][0], True)
