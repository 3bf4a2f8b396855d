#!/usr/bin/env python3
"""Run the stencil on hosts of a job, and print the checksum of its result.

    run_stencil.py --steps 1000                      in a batch job: on the hosts that it has
    run_stencil.py --steps 1000 --hosts 2 --more 6   on two hosts it chooses, and on up to six more that nobody needs

In the second case it is the launcher of its job. Hosts that are granted compute from the next steps on. When some are
reclaimed, their rows go to those that stay; then they are released, and asked for again. The checksum stays the same.
SIGTERM ends it early, with the checksum of the steps done.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from oarpy.examples.negotiation import stencil
from oarpy.examples.negotiation.stencil import Plate, Stencil

from oarpy.negotiation.exchange import Message, flat
from oarpy.negotiation.launchers import rigid
from oarpy.negotiation.messages import REVOCABLE
from oarpy.negotiation.negotiated_job import NegotiatedJob
from oarpy.negotiation.run_times import Cluster

_STEPS_AT_ONCE = 5
"""Steps between two looks at what the server says."""


def over_oarsh(job: int, host: str) -> subprocess.Popen[bytes]:
    """Start a process of the stencil on a host of a job."""
    program = shlex.join([sys.executable, stencil.__file__])
    return subprocess.Popen(["oarsh", "-j", str(job), host, program], stdin=subprocess.PIPE)


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)


def run_fixed(options: argparse.Namespace) -> None:
    """Run on the hosts of the batch job that this is in."""
    hosts = list(dict.fromkeys(Path(os.environ["OAR_NODEFILE"]).read_text(encoding="utf-8").split()))
    start = partial(over_oarsh, int(os.environ["OAR_JOB_ID"]))
    with Stencil(options.plate, start, options.address) as running:
        running.spread(hosts)
        running.run(options.steps)
        say(f"checksum {running.checksum()} after {running.step} steps on {len(hosts)} hosts")


class ElasticStencil:
    """The launcher: it speaks for the job between the steps."""

    def __init__(self, job: NegotiatedJob, options: argparse.Namespace) -> None:
        self.job = job
        self.options = options
        self.hosts: list[str] = []
        self.cluster = ""
        self.interrupted = False

    def interrupt(self, *_: object) -> None:
        """Let the present steps be the last ones."""
        self.interrupted = True

    def run(self) -> None:
        """Make the job, compute, and give the hosts back. Raises OSError when a process is lost."""
        number = self.job.subscribe(["-n", "stencil"])
        say(f"OAR_JOB_ID={number}")
        self._wait_for_start()
        with Stencil(self.options.plate, partial(over_oarsh, number), self.options.address) as running:
            self._spread(running)
            self._ask_for_more()
            while running.step < self.options.steps and not self.interrupted:
                while (message := self.job.next(0)) is not None:
                    self._hear(message, running)
                running.run(min(_STEPS_AT_ONCE, self.options.steps - running.step))
            say(f"checksum {running.checksum()} after {running.step} steps on {len(self.hosts)} hosts")
        self.job.done()
        for message in self.job.messages():
            if message["message"] == "ended":
                say(f"ended: {message['reason']}")

    def _wait_for_start(self) -> None:
        """Ask for hosts where they are free first, again whenever the view changes, until the job has them."""
        found = self.job.clusters()["clusters"]
        clusters = [Cluster(name, one["hosts"]) for name, one in found.items() if one["hosts"] >= self.options.hosts]
        if not clusters:
            raise SystemExit(f"no cluster has {self.options.hosts} hosts")
        launcher = rigid(clusters, self.options.hosts, self.options.walltime)
        asked = None
        for message in self.job.messages():
            if message["message"] == "changeNotify":
                choice = launcher.choose(self.job.view, time.time())
                if choice is None or choice == asked:
                    self.job.keep()
                else:
                    asked = choice
                    self.job.request(choice.hosts, choice.walltime)
            elif message["message"] == "startNotify":
                (self.cluster,) = message["names"]
                self.hosts = flat(message["names"])
                return
            elif message["message"] in ("refused", "ended"):
                raise SystemExit(f"{message['message']}: {message['reason']}")

    def _hear(self, message: Message, running: Stencil) -> None:
        word = message["message"]
        if word == "granted":
            self.hosts += flat(message["names"])
            self._spread(running)
        elif word == "reclaim":
            leaving = flat(message["names"])
            self.hosts = [name for name in self.hosts if name not in leaving]
            self._spread(running)
            self.job.release(leaving)
        elif word == "released":
            self._ask_for_more()
        elif word == "refused":
            say(f"{message['of']} is refused: {message['reason']}")
        elif word == "ended":
            raise SystemExit(f"ended: {message['reason']}")

    def _spread(self, running: Stencil) -> None:
        running.spread(self.hosts)
        say(f"step {running.step}: {len(self.hosts)} hosts: {' '.join(self.hosts)}")

    def _ask_for_more(self) -> None:
        missing = self.options.hosts + self.options.more - len(self.hosts)
        if missing > 0:
            self.job.extend({self.cluster: missing}, REVOCABLE)


def main(words: Sequence[str]) -> None:
    """Run on these arguments."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--hosts", type=int, default=0, help="choose so many; 0: those of the job around it")
    parser.add_argument("--more", type=int, default=0, help="use up to so many more while nobody needs them")
    parser.add_argument("--walltime", type=int, default=3600, help="seconds")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--columns", type=int, default=64)
    parser.add_argument("--pace", type=float, default=0.0, help="least seconds of a step, as of a longer computation")
    parser.add_argument("--address", default=socket.gethostname(), help="where the hosts reach this program")
    options = parser.parse_args(words)
    options.plate = Plate(options.rows, options.columns, options.pace)
    try:
        if options.hosts:
            with NegotiatedJob() as job:
                elastic = ElasticStencil(job, options)
                signal.signal(signal.SIGTERM, elastic.interrupt)
                elastic.run()
        else:
            run_fixed(options)
    except OSError as error:
        raise SystemExit(f"run_stencil: {error}") from None


if __name__ == "__main__":
    main(sys.argv[1:])
