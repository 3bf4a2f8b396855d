"""``oarpy demo --negotiate``: applications that choose their hosts, grow and shrink, for real, as a transcript."""

from __future__ import annotations

import importlib.util
import re
import shlex
import signal
import sys
from importlib.resources import files
from pathlib import Path

from oarpy.local_cluster.sandbox import Sandbox, Settings
from oarpy.local_cluster.transcript import FINAL, Transcript, play
from oarpy.model.errors import OarpyError

_NODES = 8
_SETTINGS: Settings = {"negotiation": {"reclaim_notice": 5.0, "launcher_host": "node1"}}
_TIMEOUT = 60.0
"""Seconds: the longest wait for a line of a program. All are short on a machine with nothing else to do."""
_PYTHON = ("python", "-m")
_EXAMPLES = "oarpy.examples.negotiation"
_STEPS = 100_000
_ADDRESS = ("--address", "127.0.0.1")
_HALF = ("-n", "half", "-l", f"/nodes={_NODES // 2},walltime=0:5:0")


class NegotiationDemo(Transcript):
    """The steps of the demo, each a method. It prints the output of the programs, with their names in front."""

    def run(self) -> None:
        """Run every step. Raises :class:`OarpyError` if a step fails."""
        self.say(f"A cluster in one folder, of {_NODES} nodes")
        self.begin(_NODES, 1)
        self._moldable()
        self._stencil()
        self._shell()
        self._dask()
        self._overview()

    def _moldable(self) -> None:
        self.say("A sweep picks hosts around others. One of them ends early, and it asks again, for more")
        held = {"short": (2, 2), "long": (4, 30), "longer": (2, 60)}
        jobs = {
            name: self.submit("-n", name, "-l", f"/nodes={nodes},walltime=0:{minutes}:0", "sleep 3600")
            for name, (nodes, minutes) in held.items()
        }
        self.sandbox.wait_for(list(jobs.values()), ("Running",), _TIMEOUT)
        points = ("--points", "8", "--seconds", "20", "echo", "point")
        sweep = self.beside("sweep", *_PYTHON, f"{_EXAMPLES}.sweep", *points)
        sweep.wait_for("asks for 2 hosts", _TIMEOUT)
        sweep.wait_for("would start", _TIMEOUT)
        self.show("oarstat")
        self.show("oardel", str(jobs["long"]))
        sweep.wait_for("asks for 4 hosts", _TIMEOUT)
        sweep.end(_TIMEOUT)
        self.show("oardel", str(jobs["short"]), str(jobs["longer"]))
        self.sandbox.wait_for(list(jobs.values()), FINAL, _TIMEOUT)
        results = sorted(path.read_text(encoding="utf-8") for path in (self._work / "results").glob("*.out"))
        self._hold(results == [f"point {point}\n" for point in range(8)], f"the results of the sweep are {results}")

    def _stencil(self) -> None:
        self.say("A stencil grows over all hosts, shrinks for a batch job, and grows again")
        program = (*_PYTHON, f"{_EXAMPLES}.run_stencil", *_ADDRESS, "--pace", "0.02")
        elastic = self.beside("stencil", *program, "--steps", str(_STEPS), "--hosts", "2", "--more", str(_NODES - 2))
        elastic.wait_for(f": {_NODES} hosts:", _TIMEOUT)
        job = self.submit(*_HALF, "sleep 2")
        elastic.wait_for(f": {_NODES // 2} hosts:", _TIMEOUT)
        self.end(job)
        elastic.wait_for(f": {_NODES} hosts:", _TIMEOUT)
        elastic.process.send_signal(signal.SIGTERM)
        words = next(line for line in elastic.end(_TIMEOUT) if line.startswith("checksum")).split()
        checksum, steps = words[1], words[3]
        self.say(f"The same {steps} steps on four hosts that stay the same")
        fixed = self.submit("-n", "fixed", "-l", "/nodes=4,walltime=0:5:0", f"{' '.join(program[:-2])} --steps {steps}")
        self.end(fixed)
        self.print_file(f"OAR.fixed.{fixed}.stdout")
        printed = (self._work / f"OAR.fixed.{fixed}.stdout").read_text()
        self._hold(checksum == printed.split()[1], f"the checksums differ: {checksum} and {printed}")

    def _shell(self) -> None:
        self.say("A launcher without Python, run beside and by the cluster")
        shell = str(files(_EXAMPLES) / "launcher.sh")
        hello = 'for host; do oarsh -n "$host" echo job "$OAR_JOB_ID" has "$host"; done'
        script = ("sh", shell, "2", "60", "sh", "-c", hello, "hello")
        self._check_hosts("".join(self.beside("launcher.sh", *script).end(_TIMEOUT)))
        job = self.submit("-n", "launched", "--launcher", shlex.join(script))
        self.end(job)
        self.print_file(f"OAR.{job}.launcher")
        self._check_hosts((self._work / f"OAR.{job}.launcher").read_text(encoding="utf-8"))

    def _check_hosts(self, output: str) -> None:
        self._hold(len(re.findall(r"^job \d+ has node\d$", output, re.MULTILINE)) == 2, f"the launcher said {output}")

    def _dask(self) -> None:
        self.say("500 tasks of dask on one job; a batch job takes back half of its hosts meanwhile")
        dask = self.beside("dask", *_PYTHON, f"{_EXAMPLES}.dask_squares", *_ADDRESS, "--most", str(_NODES))
        dask.wait_for(f", {_NODES} workers", _TIMEOUT)
        job = self.submit(*_HALF, "sleep 1")
        dask.wait_for("reclaim: ", _TIMEOUT)
        dask.wait_for("released: ", _TIMEOUT)
        self._hold(self.show("oarstat").count("N=dask") == 1, "dask has more than one job")
        self.end(job)
        lines = dask.end(_TIMEOUT)
        self._hold("500 of 500 results are right\n" in lines, f"dask said {lines}")

    def _overview(self) -> None:
        self.say("Each of these was one job")
        self.show("oarpy", "db", "query", "SELECT job_id, job_name AS name, state FROM jobs ORDER BY job_id")

    @property
    def _work(self) -> Path:
        return self.sandbox.directory / "work"

    def _hold(self, fact: bool, otherwise: str) -> None:
        if not fact:
            raise OarpyError(otherwise, hint="see server.log")


def run_negotiation_demo(directory: Path) -> None:
    """Run the demo in ``directory``; data and logs stay there."""
    if importlib.util.find_spec("distributed") is None:
        raise OarpyError("dask is not installed", hint="pip install 'oarpy-scheduler[embedded,dask]'")
    sys.stdout.flush()
    play(NegotiationDemo(Sandbox(directory, _SETTINGS)))
