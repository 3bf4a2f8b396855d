"""``oarpy demo --mapping``: rates are measured on two types of nodes, and a walltime follows its job to the other type.

The nodes are of this machine, so of one speed: the script that measures sleeps longer on those that are called slow.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from pathlib import Path

from oarpy.local_cluster.sandbox import Sandbox, local_nodes
from oarpy.local_cluster.transcript import FINAL, Transcript, play
from oarpy.model.errors import OarpyError

_RATE = """\
#!/bin/sh
# an iteration of size a takes 4 ms on a fast node, and 8 ms on a slow one; one of size b takes twice as long
pace=4
grep -q "kind = 'slow'" "$OAR_RESOURCE_PROPERTIES_FILE" && pace=8
[ "$1" = b ] && pace=$((pace * 2))
sleep "$(awk "BEGIN { print $2 * $pace / 1000 }")"
"""
_PROGRAM = """\
#!/bin/sh
# a program would start each process where the file says; this one keeps the file
cp "$OAR_MAPFILE" map.$OAR_JOB_ID
"""
_KINDS = {1: "fast", 2: "fast", 3: "slow", 4: "slow"}
_PROCESSES, _ITERATIONS = 8, 6000
_MAPPED = ("--processes", str(_PROCESSES), "--iterations", str(_ITERATIONS), "--sizes", "a,b", "--rate", "./rate.sh")


class MappingDemo(Transcript):
    """The steps; what is printed is what the commands printed."""

    def run(self) -> None:
        """Run every step. Raises :class:`OarpyError` when one does not do what it should."""
        self.say("A cluster in one folder: two nodes of type fast, two of type slow, two cores each")
        self._begin()
        self.say("A program of eight processes of two sizes: two jobs measure it, one on each type of node")
        first = self.submit("-n", "first", *_MAPPED, "-l", "core=2", "./program")
        self.end(first)
        self.show("oarrates")
        self.print_file(f"map.{first}")
        self.say("All nodes are taken, the slow ones for a shorter time: another run is planned on these")
        fast = self.submit("-n", "fast", "-p", "kind = 'fast'", "-l", "/nodes=2,walltime=0:30:0", "sleep 1800")
        slow = self.submit("-n", "slow", "-p", "kind = 'slow'", "-l", "/nodes=2,walltime=0:5:0", "sleep 1800")
        self.sandbox.wait_for([fast, slow], ("Running",), 60)
        second = self.submit("-n", "second", *_MAPPED, "-l", "core=2", "./program")
        self._until_on(second, "slow")
        self.show("oarstat", "--why", str(second))
        self.say("The fast nodes become free: the run moves there, and gets a shorter walltime")
        self.show("oardel", str(fast))
        self.end(second)
        self.show("oarstat", "--why", str(second))
        self.say("The file of the map has what oarpy decide says")
        self._compare(second)
        self.show("oardel", str(slow))
        self.sandbox.wait_for([fast, slow], FINAL, 60)

    def _begin(self) -> None:
        """Start the cluster with nodes of two types, and write the two programs."""
        self.sandbox.create()
        self.show("oarproperty", "--add", "kind", "--varchar")
        self.sandbox.start()
        self.sandbox.wait_for_gateway(30)
        self.show(*local_nodes("/host=node[1-4]/cpu={1}/core={2}"))
        for number, kind in _KINDS.items():
            self.show("oarnodesetting", "-h", f"node{number}", "-p", f"kind={kind}")
        for name, text in (("rate.sh", _RATE), ("program", _PROGRAM)):
            path = self.sandbox.directory / "work" / name
            path.write_text(text, encoding="utf-8")
            path.chmod(0o755)
            self.print_file(name)

    def _until_on(self, job: int, kind: str) -> None:
        """Wait until a job is planned on a type of nodes."""
        deadline = time.monotonic() + 60
        while f"of type {kind}." not in self.sandbox.run("oarstat", "--why", str(job)).stdout:
            if time.monotonic() > deadline:
                raise OarpyError(f"job {job} is not planned on nodes of type {kind}", hint="see server.log")
            time.sleep(0.2)

    def _compare(self, job: int) -> None:
        """Hold the map file of a job against the answer to the same question."""
        rates = json.loads(self.sandbox.run("oarrates", "-J").stdout)
        throughput: dict[str, dict[str, float]] = {}
        for rate in rates:
            throughput.setdefault(rate["node_type"], {})[rate["size"]] = rate["rate"]
        question = {
            "ask": "map",
            "model": "sync",
            "iterations": _ITERATIONS,
            "processes": _PROCESSES,
            "resources": {"fast": 2},
            "throughput": {"fast": throughput["fast"]},
        }
        work = self.sandbox.directory / "work"
        (work / "map.json").write_text(json.dumps(question), encoding="utf-8")
        answer = json.loads(self.show("oarpy", "decide", "map.json"))
        lines = [line.split() for line in (work / f"map.{job}").read_text(encoding="utf-8").splitlines()]
        sizes = Counter(size for _, size, _, _, _ in lines)
        self.print_file(f"map.{job}")
        if sizes != answer["assigned"]["fast"]:
            raise OarpyError(f"the map file has {dict(sizes)}, not {answer['assigned']}", hint="see server.log")
        sys.stdout.write("The file has the same processes.\n")


def run_mapping_demo(directory: Path) -> None:
    """Run the demo in ``directory``; data and logs stay there."""
    play(MappingDemo(Sandbox(directory, {"scheduler": {"node_type": "kind", "security_time": 1}})))
