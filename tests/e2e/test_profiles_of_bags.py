"""Profiles of bags on real nodes: scripts that tell a time, others that tell none, and frames rendered by POV-Ray."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oarpy.local_cluster.sandbox import Sandbox, Settings, local_nodes, running_sandbox
from oarpy.local_cluster.transcript import FINAL

pytestmark = pytest.mark.e2e

_HOUR = ("-l", "core=1,walltime=1:0:0")
_FRAMES = f"{shlex.quote(sys.executable)} -m oarpy.examples.rendered_frames.frames --frames 4 --width 64 --height 48"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """Two nodes of two types, ``1`` and ``2``, with a core each; a profile may take 30 seconds."""
    settings: Settings = {
        "scheduler": {"security_time": 0, "node_type": "cpu", "promised_share": 100, "profile_limit": 30}
    }
    nodes = local_nodes("/host=node[1-2]/cpu={1}/core={1}")
    with running_sandbox(tmp_path_factory.mktemp("cluster"), settings, nodes) as sandbox:
        sandbox.wait_for_gateway(30)
        yield sandbox


def script(cluster: Sandbox, name: str, text: str) -> str:
    """Write a script into the folder of the user; return its path from there."""
    path = cluster.directory / "work" / name
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return f"./{name}"


def submitted(cluster: Sandbox, profile: str, *words: str) -> dict[str, Any]:
    """Submit a bag with a profile; return what is told when it has its promise."""
    answer: dict[str, Any] = json.loads(cluster.run("oarsub", "-J", "--bag", "4", "--profile", profile, *words).stdout)
    return answer


def bag_of(cluster: Sandbox, answer: dict[str, Any]) -> dict[str, Any]:
    bag: dict[str, Any] = json.loads(cluster.run("oarstat", "-J", "--bag", str(answer["array_id"])).stdout)
    return bag


def test_a_bag_is_promised_by_walltimes_and_expected_by_the_profile_that_jobs_take(cluster: Sandbox) -> None:
    where = 'grep -q "cpu = \'1\'" "$OAR_RESOURCE_PROPERTIES_FILE" && echo 300 || echo 600'
    answer = submitted(cluster, script(cluster, "seconds", where), *_HOUR, "sleep 600")
    assert (len(answer["measuring"]), answer["warnings"]) == (2, [])
    bag = bag_of(cluster, answer)
    assert {kind["node_type"]: kind["seconds"] for kind in bag["profile"]} == {"1": 300, "2": 600}
    # two rounds of an hour; by the profile the slow node does one task while the fast one does two, and then one each
    assert answer["promise"] == bag["promise"]
    assert answer["promise"] - answer["expected"] == 2 * 3600 - 900
    accounted = cluster.run("oarstat", "-J", "-j", str(answer["measuring"][0])).stdout
    assert json.loads(accounted)[str(answer["measuring"][0])]["name"] == "profile"
    cluster.run("oardel", "--bag", str(answer["array_id"]))
    cluster.wait_for(answer["job_ids"], FINAL, 60)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("echo nan", "prints the seconds 'nan', which is no number above 0"),
        ("true", "prints nothing"),
        ("head -c 1000000000 /dev/zero", "prints more than 1048576 bytes"),
        ("exec sleep 3600", "ended before it told the seconds of a task"),
    ],
)
def test_what_tells_no_time_is_a_warning_and_walltimes_count(cluster: Sandbox, text: str, words: str) -> None:
    answer = submitted(cluster, script(cluster, "wrong", text), *_HOUR, "true")
    assert len(answer["warnings"]) == 2
    for warning in answer["warnings"]:
        assert warning.startswith("Warning: tasks count with their walltime on nodes of type ")
        assert warning.endswith(words)
    assert answer["promise"] == answer["expected"]
    cluster.wait_for(answer["job_ids"], FINAL, 60)


@pytest.mark.skipif(shutil.which("povray") is None, reason="there is no povray: apt install povray")
def test_frames_are_profiled_and_rendered(cluster: Sandbox) -> None:
    profile = script(cluster, "profile.sh", f"exec {_FRAMES} --profile")
    answer = submitted(cluster, profile, "-l", "core=1,walltime=0:10:0", f"{_FRAMES} $OAR_BAG_TASK")
    assert answer["warnings"] == []
    assert answer["expected"] < answer["promise"]
    ended = cluster.wait_for(answer["job_ids"], FINAL, 120)
    assert set(ended.values()) == {"Terminated"}
    work = Path(cluster.directory / "work")
    rendered = [(work / f"frame-{frame}.png").read_bytes()[:4] for frame in range(1, 5)]
    assert rendered == [b"\x89PNG"] * 4
