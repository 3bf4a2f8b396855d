"""The channel to a door: answers in time, broken connections made anew, silence told as such."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from oarpy.grid.calls.table import Abort, CallRefused, ClusterSilent, Describe
from oarpy.grid.clusters.door_channel import DoorChannel, secured
from oarpy.grid.clusters.oarpy_cluster import OarpyCluster

ECHO = "import sys\nfor line in sys.stdin: print(line.strip().upper(), flush=True)"
ONCE = "import sys\nprint(sys.stdin.readline().strip(), flush=True)"
SILENT = "import sys\nfor line in sys.stdin: pass"
REFUSING = "import sys; sys.exit('Permission denied (publickey).')"


def python(program: str) -> Sequence[str]:
    return [sys.executable, "-c", program]


def answering(error: str) -> Sequence[str]:
    """Return a command that answers every call with this JSON in the place of the error."""
    return python(
        "import json, sys\nfor line in sys.stdin:\n"
        f"    print(json.dumps({{'key': json.loads(line)['key'], 'error': {error}}}), flush=True)"
    )


def test_lines_go_both_ways_over_one_connection() -> None:
    channel = DoorChannel("a", python(ECHO))
    assert [channel.ask(word, 20) for word in (b"one", b"x" * 300_000, b"two")] == [b"ONE", b"X" * 300_000, b"TWO"]
    channel.close()


def test_a_connection_found_broken_is_made_anew() -> None:
    channel = DoorChannel("a", python(ONCE))
    assert [channel.ask(word, 20) for word in (b"one", b"two", b"three")] == [b"one", b"two", b"three"]
    channel.close()


def test_silence_is_told_and_the_next_call_has_a_new_connection(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    first_silent = (
        f"import os\nif not os.path.exists({str(mark)!r}):\n    open({str(mark)!r}, 'w')\n    input()\n    input()\n"
    )
    channel = DoorChannel("a", python(first_silent + ECHO))
    with pytest.raises(ClusterSilent, match="cluster 'a' does not answer: no answer within 2 s"):
        channel.ask(b"one", 2)
    assert channel.ask(b"two", 20) == b"TWO"
    channel.close()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (python(REFUSING), "Permission denied (publickey)."),
        (python("raise SystemExit(7)"), "its command ended with status 7"),
        (["/nonexistent/oargriddoor"], "No such file or directory"),
    ],
)
def test_why_a_cluster_is_silent_is_told(words: Sequence[str], reason: str) -> None:
    channel = DoorChannel("a", words)
    with pytest.raises(ClusterSilent) as raised:
        channel.ask(b"one", 20)
    assert reason in str(raised.value)
    channel.close()


def test_ssh_checks_host_keys_whatever_the_site_writes() -> None:
    words = secured(["/usr/bin/ssh", "-o", "StrictHostKeyChecking=no", "-A", "oargrid@host"])
    assert words.index("StrictHostKeyChecking=yes") < words.index("StrictHostKeyChecking=no")
    assert words.index("ForwardAgent=no") < words.index("-A")
    assert words[-1] == "oargrid@host"


def test_a_refusal_keeps_its_code_and_a_lost_database_is_silence() -> None:
    refused = OarpyCluster("a", answering("dict(code='not_allowed', message='no grant', hint='h', status=5)"))
    with pytest.raises(CallRefused, match=r"cluster 'a': no grant \(h\)") as raised:
        refused.ask(Abort("t", key="k"))
    assert (raised.value.code, raised.value.exit_status) == ("not_allowed", 5)
    refused.close()
    lost = OarpyCluster("a", answering("dict(code='unreachable', message='the database is away', status=6)"))
    with pytest.raises(ClusterSilent, match="the database is away"):
        lost.ask(Abort("t", key="k"))
    lost.close()


def test_what_is_no_answer_is_silence() -> None:
    for program in (ECHO, "import sys\nfor line in sys.stdin: print('Welcome!', flush=True)"):
        cluster = OarpyCluster("a", python(program), seconds=20)
        with pytest.raises(ClusterSilent, match="what it says is no answer"):
            cluster.ask(Describe())
        cluster.close()


def test_a_call_that_no_door_takes_is_refused_before_it_is_sent() -> None:
    cluster = OarpyCluster("a", ["/nonexistent"])
    with pytest.raises(CallRefused, match="no call: "):
        cluster.ask(Abort("t", key="with blank"))
