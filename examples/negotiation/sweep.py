#!/usr/bin/env python3
"""A parameter sweep that chooses its hosts: a command is run for each point, one point at a time on each host.

::

    oarsub --launcher "sweep.py --points 100 --seconds 60 ./simulate" -n sweep
    sweep.py --points 100 --seconds 60 ./simulate

The command gets the number of the point as its last argument, and runs on a host of the job by ``oarsh``. The sweep
asks for the numbers of hosts and the walltime that end it first, and asks again when the view changes. Points that are
done leave a file in the folder of results: run again, it does the others.
"""

from __future__ import annotations

import argparse
import math
import os
import queue
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from oarpy.negotiation.exchange import Message
from oarpy.negotiation.launchers import Moldable
from oarpy.negotiation.negotiated_job import NegotiatedJob
from oarpy.negotiation.run_times import AmdahlTime, Cluster

MARGIN = 2
"""The walltime that is asked for, as a multiple of the time expected."""
STARTING = 30
"""Seconds that are asked for beside that: programs take time to be started."""


class Points:
    """The points of a sweep, as files of a folder: one that is there is done."""

    def __init__(self, folder: Path, number: int) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._open: queue.SimpleQueue[int] = queue.SimpleQueue()
        for point in range(number):
            if not self._file(point).exists():
                self._open.put(point)

    @property
    def left(self) -> int:
        """How many are neither done nor being worked on."""
        return self._open.qsize()

    def work(self, host: str, command: Sequence[str]) -> None:
        """Do points on a host until none is left."""
        while True:
            try:
                point = self._open.get_nowait()
            except queue.Empty:
                return
            words = " ".join(map(shlex.quote, [*command, str(point)]))
            # a result that is cut off has another name
            part = self._file(point).with_suffix(".part")
            with part.open("wb") as result:
                status = subprocess.run(
                    ["oarsh", host, words], stdin=subprocess.DEVNULL, stdout=result, check=False
                ).returncode
            if status == 0:
                part.rename(self._file(point))
            else:
                print(f"point {point} failed on {host}: exit status {status}", file=sys.stderr)

    def _file(self, point: int) -> Path:
        return self._folder / f"point-{point}.out"


class SweepLauncher:
    """Speaks for the sweep: asks for what ends it first, and works on what it gets."""

    def __init__(self, job: NegotiatedJob, points: Points, command: Sequence[str], seconds: float, most: int) -> None:
        self._job = job
        self._points = points
        self._command = command
        self._seconds = seconds
        self._most = most
        self._asked: tuple[Mapping[str, int], float] | None = None
        self._working: threading.Thread | None = None

    def speak(self) -> str:
        """Speak until the job is over; return why it is."""
        for message in self._job.messages():
            self._hear(message)
        return self._job.ended or "lost"

    def _hear(self, message: Message) -> None:
        word = message["message"]
        if word == "changeNotify":
            self._ask()
        elif word == "estimate":
            print(f"would start at {message['start']}: {message['reason']}", file=sys.stderr)
        elif word == "startNotify":
            hosts = [name for names in message["names"].values() for name in names]
            self._working = threading.Thread(target=self._work, args=(hosts,), daemon=True)
            self._working.start()
        elif word == "refused":
            sys.exit(f"refused: {message['reason']}")

    def _ask(self) -> None:
        """Ask for what ends first by the present view; keep the request where that is what was asked for."""
        sizes = self._job.clusters(list(self._job.view))["clusters"]
        clusters = [Cluster(name, facts["hosts"]) for name, facts in sizes.items()]
        single = self._points.left * self._seconds
        choice = Moldable(clusters, AmdahlTime(1, single), 1, self._most, MARGIN).choose(self._job.view, time.time())
        if choice is None:
            self._job.keep()
            return
        asked = choice.hosts, float(math.ceil(choice.walltime) + STARTING)
        if asked == self._asked:
            self._job.keep()
        else:
            self._asked = asked
            print(f"asks for {sum(choice.hosts.values())} hosts, for {asked[1]:g} s", file=sys.stderr)
            self._job.request(*asked)

    def _work(self, hosts: Iterable[str]) -> None:
        """Do the points on all hosts at once, then give these back."""
        workers = [threading.Thread(target=self._points.work, args=(host, self._command)) for host in hosts]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        self._job.done()


def main() -> None:
    """Run the sweep that the arguments describe."""
    parser = argparse.ArgumentParser(description="A parameter sweep that chooses its hosts.")
    parser.add_argument("--points", type=int, required=True, help="how many points there are")
    parser.add_argument("--seconds", type=float, required=True, help="how long a point takes, about")
    parser.add_argument("--most", type=int, default=64, help="hosts at most")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of the results")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what is run for each point")
    asked = parser.parse_args()
    if not asked.command:
        parser.error("give the command that is run for each point")
    points = Points(asked.results, asked.points)
    with NegotiatedJob() as job:
        if "OAR_JOB_ID" in os.environ:
            job.attach()
        else:
            print(f"OAR_JOB_ID={job.subscribe(['-n', 'sweep'])}", file=sys.stderr)
        os.environ["OAR_JOB_ID"] = str(job.id)
        reason = SweepLauncher(job, points, asked.command, asked.seconds, asked.most).speak()
    sys.exit(0 if reason == "done" and not points.left else 1)


if __name__ == "__main__":
    main()
