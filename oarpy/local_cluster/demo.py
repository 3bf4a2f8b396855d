"""``oarpy demo``: the main job of a batch scheduler, for real, on this machine, as a transcript."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from oarpy.local_cluster.sandbox import Sandbox
from oarpy.model.errors import OarpyError

_FINAL = ("Terminated", "Error")
_HELLO = "for node in $(sort -u $OAR_NODEFILE); do echo job $OAR_JOB_ID has $node; done"
_ACCOUNTING = (
    "SELECT user_name, queue_name, consumption_type AS type, round(sum(consumption), 1) AS core_seconds "
    "FROM accounting GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
)
_ALTERNATIVES = (
    "SELECT job_id, state, position + 1 AS alternative_chosen, m.walltime "
    "FROM jobs JOIN moldable_descriptions m USING (moldable_id) WHERE job_id = {job}"
)


@dataclass(slots=True)
class Demo:
    """The steps, each a method; what is printed is what the commands printed."""

    sandbox: Sandbox
    nodes: int = 4
    cores: int = 2

    def run(self) -> None:
        """Run every step. Raises :class:`OarpyError` when one does not do what it should."""
        self._say("A cluster in one folder: PostgreSQL, the server's modules, four nodes of two cores")
        self.sandbox.create()
        self.sandbox.start()
        self.sandbox.wait_for_gateway(30)
        pattern = f"/host=node[1-{self.nodes}]/cpu={{1}}/core={{{self.cores}}}"
        self._show("oaradmin", "resources", "add", pattern, "--transport", "local")
        self._show("oarnodes", "-s")
        self._parallel()
        self._moldable()
        self._array()
        self._besteffort()
        self._refusal()
        self._overview()
        self._accounting()

    def _parallel(self) -> None:
        self._say("A parallel job on three whole nodes")
        job = self._submit("-n", "parallel", "-l", "/nodes=3,walltime=0:5:0", _HELLO)
        self._end(job)
        self._print(f"OAR.parallel.{job}.stdout")

    def _moldable(self) -> None:
        self._say("A moldable job: four nodes for a minute, or one core for two; three nodes are taken for long")
        blocker = self._submit("-n", "blocker", "-l", "/nodes=3,walltime=0:10:0", "sleep 600")
        self.sandbox.wait_for([blocker], ("Running",), 30)
        job = self._submit(
            "-n",
            "moldable",
            "-l",
            "/nodes=4,walltime=0:1:0",
            "-l",
            "/core=1,walltime=0:2:0",
            "sleep 1; wc -l < $OAR_NODEFILE",
        )
        self._end(job)
        self._show("oarpy", "db", "query", _ALTERNATIVES.format(job=job))
        self._show("oardel", str(blocker))
        self.sandbox.wait_for([blocker], _FINAL, 30)

    def _array(self) -> None:
        self._say("An array of fifty")
        jobs = self.sandbox.job_ids("-n", "array", "--array", "50", "-l", "/core=1,walltime=0:5:0", "date")
        self._command("oarsub", "-n", "array", "--array", "50", "-l", "/core=1,walltime=0:5:0", "date")
        sys.stdout.write(f"OAR_JOB_ID={jobs[0]}\n...\nOAR_JOB_ID={jobs[-1]}\nOAR_ARRAY_ID={jobs[0]}\n")
        states = self.sandbox.wait_for(jobs, _FINAL, 60)
        ended = sum(state == "Terminated" for state in states.values())
        sys.stdout.write(f"{ended} of {len(jobs)} are Terminated\n")
        if ended != 50:
            raise OarpyError(f"{ended} of 50 array jobs ended well", hint="see server.log")

    def _besteffort(self) -> None:
        self._say("A best-effort job on the whole cluster gives way to a job that needs it")
        victim = self._submit(
            "-n", "victim", "-t", "besteffort", "-l", f"/nodes={self.nodes},walltime=0:10:0", "sleep 600"
        )
        self.sandbox.wait_for([victim], ("Running",), 30)
        job = self._submit("-n", "urgent", "-l", f"/nodes={self.nodes},walltime=0:5:0", _HELLO)
        self._end(job)
        self.sandbox.wait_for([victim], ("Error",), 30)
        self._show("oarstat", "-s", "-j", str(victim), "-j", str(job))
        self._show("oarstat", "-e", "-j", str(victim))
        self._print(f"OAR.urgent.{job}.stdout")

    def _refusal(self) -> None:
        self._say("A submission refused by an admission rule, which says its name")
        done = self.sandbox.run("oarsub", "-t", "teleport", "hostname", check=False)
        self._command("oarsub", "-t", "teleport", "hostname")
        sys.stdout.write(f"{done.stdout}{done.stderr}(exit status {done.returncode})\n")
        if done.returncode != 3:
            raise OarpyError(f"a refused submission ended with {done.returncode}, not 3")

    def _overview(self) -> None:
        self._say("What runs, what waits, and the Gantt")
        running = self._submit("-n", "first", "-l", "/nodes=2,walltime=0:3:0", "sleep 600")
        waiting = self._submit("-n", "second", "-l", f"/nodes={self.nodes},walltime=0:2:0", "sleep 600")
        filler = self._submit("-n", "filler", "-l", "/nodes=1,walltime=0:2:0", "sleep 600")
        self.sandbox.wait_for([running, filler], ("Running",), 30)
        self.sandbox.wait_for([waiting], ("Waiting",), 30)
        self._show("oarstat")
        now = datetime.now().replace(microsecond=0)
        self._show("oarstat", "--gantt", f"{now}, {now + timedelta(minutes=6)}")
        self._show("oardel", str(running), str(waiting), str(filler))
        self.sandbox.wait_for([running, waiting, filler], _FINAL, 30)

    def _accounting(self) -> None:
        self._say("Who used what: SQL over the accounting")
        self.sandbox.run("oaraccounting")
        self._show("oarpy", "db", "query", _ACCOUNTING)

    def _submit(self, *arguments: str) -> int:
        done = self._show("oarsub", *arguments)
        return int(next(line for line in done.splitlines() if line.startswith("OAR_JOB_ID=")).partition("=")[2])

    def _end(self, job: int) -> None:
        state = self.sandbox.wait_for([job], _FINAL, 60)[job]
        if state != "Terminated":
            raise OarpyError(f"job {job} ended as {state}", hint="see server.log")

    def _show(self, *arguments: str) -> str:
        """Run a command and print it with what it printed."""
        self._command(*arguments)
        done = self.sandbox.run(*arguments)
        sys.stdout.write(done.stdout + done.stderr)
        sys.stdout.flush()
        return done.stdout

    def _print(self, name: str) -> None:
        self._command("cat", name)
        sys.stdout.write((self.sandbox.directory / "work" / name).read_text(encoding="utf-8"))

    def _command(self, *arguments: str) -> None:
        sys.stdout.write(f"$ {shlex.join(arguments)}\n")
        sys.stdout.flush()

    def _say(self, text: str) -> None:
        sys.stdout.write(f"\n# {text}\n")
        sys.stdout.flush()


def run_demo(directory: Path) -> None:
    """Run the demo in ``directory`` and stop everything it started; data and logs stay there."""
    sandbox = Sandbox(directory)
    sandbox.remove()
    try:
        Demo(sandbox).run()
    finally:
        sandbox.stop()
    sys.stdout.write(f"\n# Done; everything is stopped. Data and logs are in {directory}\n")
