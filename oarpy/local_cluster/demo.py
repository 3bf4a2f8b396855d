"""``oarpy demo``: the main job of a batch scheduler, for real, on this machine, as a transcript."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

from oarpy.local_cluster.sandbox import Sandbox
from oarpy.local_cluster.transcript import FINAL, Transcript, play
from oarpy.model.errors import OarpyError

_HELLO = "for node in $(sort -u $OAR_NODEFILE); do echo job $OAR_JOB_ID has $node; done"
_ACCOUNTING = (
    "SELECT user_name, queue_name, consumption_type AS type, round(sum(consumption), 1) AS core_seconds "
    "FROM accounting GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
)
_ALTERNATIVES = (
    "SELECT job_id, state, position + 1 AS alternative_chosen, m.walltime "
    "FROM jobs JOIN moldable_descriptions m USING (moldable_id) WHERE job_id = {job}"
)


class Demo(Transcript):
    """The steps of the demo, each a method; it prints the output of the commands."""

    nodes = 4
    cores = 2

    def run(self) -> None:
        """Run every step. Raises :class:`OarpyError` if a step fails."""
        self.say("A cluster in one folder: PostgreSQL, the server's modules, four nodes of two cores")
        self.begin(self.nodes, self.cores)
        self.show("oarnodes", "-s")
        self._parallel()
        self._moldable()
        self._array()
        self._besteffort()
        self._refusal()
        self._windows()
        self._bags()
        self._overview()
        self._accounting()

    def _parallel(self) -> None:
        self.say("A parallel job on three whole nodes")
        job = self.submit("-n", "parallel", "-l", "/nodes=3,walltime=0:5:0", _HELLO)
        self.end(job)
        self.print_file(f"OAR.parallel.{job}.stdout")

    def _moldable(self) -> None:
        self.say("A moldable job: four nodes for a minute, or one core for two; three nodes are taken for long")
        blocker = self.submit("-n", "blocker", "-l", "/nodes=3,walltime=0:10:0", "sleep 600")
        self.sandbox.wait_for([blocker], ("Running",), 30)
        job = self.submit(
            "-n",
            "moldable",
            "-l",
            "/nodes=4,walltime=0:1:0",
            "-l",
            "/core=1,walltime=0:2:0",
            "sleep 1; wc -l < $OAR_NODEFILE",
        )
        self.end(job)
        self.show("oarpy", "db", "query", _ALTERNATIVES.format(job=job))
        self.show("oardel", str(blocker))
        self.sandbox.wait_for([blocker], FINAL, 30)

    def _array(self) -> None:
        self.say("An array of fifty")
        jobs = self.sandbox.job_ids("-n", "array", "--array", "50", "-l", "/core=1,walltime=0:5:0", "date")
        self.command("oarsub", "-n", "array", "--array", "50", "-l", "/core=1,walltime=0:5:0", "date")
        sys.stdout.write(f"OAR_JOB_ID={jobs[0]}\n...\nOAR_JOB_ID={jobs[-1]}\nOAR_ARRAY_ID={jobs[0]}\n")
        states = self.sandbox.wait_for(jobs, FINAL, 60)
        ended = sum(state == "Terminated" for state in states.values())
        sys.stdout.write(f"{ended} of {len(jobs)} are Terminated\n")
        if ended != 50:
            raise OarpyError(f"{ended} of 50 array jobs ended well", hint="see server.log")

    def _besteffort(self) -> None:
        self.say("A best-effort job on the whole cluster gives way to a job that needs it")
        victim = self.submit(
            "-n", "victim", "-t", "besteffort", "-l", f"/nodes={self.nodes},walltime=0:10:0", "sleep 600"
        )
        self.sandbox.wait_for([victim], ("Running",), 30)
        job = self.submit("-n", "urgent", "-l", f"/nodes={self.nodes},walltime=0:5:0", _HELLO)
        self.end(job)
        self.sandbox.wait_for([victim], ("Error",), 30)
        self.show("oarstat", "-s", "-j", str(victim), "-j", str(job))
        self.show("oarstat", "-e", "-j", str(victim))
        self.print_file(f"OAR.urgent.{job}.stdout")

    def _refusal(self) -> None:
        self.say("A submission refused by an admission rule, which says its name")
        done = self.sandbox.run("oarsub", "-t", "teleport", "hostname", check=False)
        self.command("oarsub", "-t", "teleport", "hostname")
        sys.stdout.write(f"{done.stdout}{done.stderr}(exit status {done.returncode})\n")
        if done.returncode != 3:
            raise OarpyError(f"a refused submission ended with {done.returncode}, not 3")

    def _windows(self) -> None:
        self.say("A reservation with room to move makes room for one without")
        whole = f"/nodes={self.nodes},walltime=1:0:0"
        begin = datetime.now().replace(microsecond=0) + timedelta(hours=2)
        until = begin + timedelta(hours=4)
        movable = self._reserve("-r", f"{begin}", "--until", f"{until}", "-l", whole, "date")
        self.show("oarwindow", str(movable))
        strict = self._reserve("-r", f"{begin}", "-l", whole, "date")
        self.show("oarwindow", str(movable))
        self.show("oarstat", "-e", "-j", str(movable))
        self.say("Who is refused is offered other starts; phi is how far each is from the wanted time, in walltimes")
        refused = self._request_reservation("-r", f"{begin + timedelta(minutes=30)}", "-l", whole, "date")
        offers = [line.split()[0].partition("=")[2] for line in refused.splitlines() if line.startswith("OAR_OFFER_ID")]
        if len(offers) != 2:
            raise OarpyError(f"{len(offers)} offers, not 2", hint="see server.log")
        taken = self._reserve("--accept", offers[0])
        self.say("What comes before a movable reservation is deleted: it goes forward")
        self.show("oardel", str(strict), str(taken))
        self.sandbox.wait_for([strict, taken], FINAL, 30)
        self.sandbox.wait_for([movable], ("Waiting",), 30)
        self._until_at(movable, begin)
        self.show("oarwindow", str(movable))
        self.show("oardel", str(movable))
        self.sandbox.wait_for([movable], FINAL, 30)

    def _bags(self) -> None:
        self.say("A bag of tasks is told at once by when all are done: by its deadline, or by the nearest later date")
        now = datetime.now().replace(microsecond=0)
        task = ("-l", "/core=1,walltime=0:10:0", "sleep 600")
        met = self._bag("--bag", "6", "--until", f"{now + timedelta(minutes=30)}", *task)
        late = self._bag("--bag", "12", "--until", f"{now + timedelta(minutes=15)}", *task)
        self.say("Others end early: the promise gets better, and that is told")
        self.show("oardel", "--bag", str(met))
        self._until("the promise improves", lambda: " IMPROVED :" in self._bag_text(late))
        self.show("oarstat", "--bag", str(late))
        self.show("oardel", "--bag", str(late))
        self._until("the bag is over", lambda: " END :" in self._bag_text(late))

    def _bag(self, *arguments: str) -> int:
        """Show a bag that is submitted, and return its number."""
        lines = self.sandbox.run("oarsub", *arguments).stdout.splitlines()
        self.command("oarsub", *arguments)
        jobs = [line for line in lines if line.startswith("OAR_JOB_ID=")]
        shown = [jobs[0], "...", jobs[-1], *(line for line in lines if line not in jobs)]
        sys.stdout.write("".join(f"{line}\n" for line in shown))
        return int(jobs[0].partition("=")[2])

    def _bag_text(self, bag: int) -> str:
        return self.sandbox.run("oarstat", "--bag", str(bag)).stdout

    def _request_reservation(self, *arguments: str) -> str:
        """Run a reservation request and print it with its answer; return the standard output."""
        done = self.sandbox.run("oarsub", *arguments, check=False)
        self.command("oarsub", *arguments)
        sys.stdout.write(done.stdout + done.stderr)
        return done.stdout

    def _reserve(self, *arguments: str) -> int:
        """Show a reservation that is accepted, and return its id."""
        printed = self._request_reservation(*arguments)
        if "--> OK" not in printed:
            raise OarpyError("a reservation was refused", hint="see server.log")
        return int(printed.splitlines()[0].partition("=")[2])

    def _until_at(self, job: int, start: datetime) -> None:
        """Wait until a reservation starts at an instant."""
        wanted = f"start={start:%Y-%m-%d_%H:%M:%S}"
        self._until(f"job {job} goes forward", lambda: wanted in self.sandbox.run("oarwindow", str(job)).stdout)

    def _until(self, what: str, happened: Callable[[], bool]) -> None:
        """Wait until something has happened."""
        deadline = time.monotonic() + 30
        while not happened():
            if time.monotonic() > deadline:
                raise OarpyError(f"it is not so that {what}", hint="see server.log")
            time.sleep(0.2)

    def _overview(self) -> None:
        self.say("What runs, what waits, and the Gantt")
        running = self.submit("-n", "first", "-l", "/nodes=2,walltime=0:3:0", "sleep 600")
        waiting = self.submit("-n", "second", "-l", f"/nodes={self.nodes},walltime=0:2:0", "sleep 600")
        filler = self.submit("-n", "filler", "-l", "/nodes=1,walltime=0:2:0", "sleep 600")
        self.sandbox.wait_for([running, filler], ("Running",), 30)
        self.sandbox.wait_for([waiting], ("Waiting",), 30)
        self.show("oarstat")
        now = datetime.now().replace(microsecond=0)
        self.show("oarstat", "--gantt", f"{now}, {now + timedelta(minutes=6)}")
        self.show("oardel", str(running), str(waiting), str(filler))
        self.sandbox.wait_for([running, waiting, filler], FINAL, 30)

    def _accounting(self) -> None:
        self.say("Who used what: SQL over the accounting")
        self.sandbox.run("oaraccounting")
        self.show("oarpy", "db", "query", _ACCOUNTING)


def run_demo(directory: Path) -> None:
    """Run the demo in ``directory``; data and logs stay there."""
    play(Demo(Sandbox(directory, {"submission": {"waiting_reservations_per_user": 10}})))
