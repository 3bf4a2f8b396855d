"""Starts and ends of short jobs at the channel of a local node: ``oarpy bench agent [--jobs N] [--slots N]``.

Jobs run ``date`` with two output files, as many at a time as there are slots. The benchmark forgets each after its end,
as the launcher does. As root they may be those of another ``--user``, as on a cluster. No database takes part. The
machine's own limit is measured in the same run: the same commands spawned with the same files and nothing around them.
Processor time is told apart by whose it is. It is the jobs' own (the shell and ``date``), the supervisors', the
agent's, or that of the server's side of the channel.
"""

from __future__ import annotations

import argparse
import getpass
import os
import select
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from oarpy.transport.inbox import Inbox
from oarpy.transport.local import LocalTransport
from oarpy.transport.node import ChannelConfig, NodeAddress
from oarpy.wire.jobs import JobSpec
from oarpy.wire.messages import ChannelLost, Ended, Forget, Ready, Refused, Report, Start

from .results import save

_SHELL = "/bin/sh"
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class AgentMeasurement:
    """One run. Times are seconds; ``*_ms`` are milliseconds of processor time for each job."""

    jobs: int
    slots: int
    seconds: float
    jobs_per_second: float
    limit_per_second: float
    jobs_own_ms: float
    supervisors_ms: float
    agent_ms: float
    server_ms: float
    wakeups: int


class Node:
    """A local node with its channel, and the jobs on their way through it."""

    def __init__(self, directory: Path, user: str) -> None:
        self._directory = directory
        self._user = user
        self._inbox = Inbox()
        self._transport = LocalTransport(self._inbox, ChannelConfig(instance=f"benchmark-{os.getpid()}"))
        self._environment = dict(os.environ)
        self._transport.connect(NodeAddress("node", str(directory / "state")))
        self.pid = next(report for report in self._reports() if isinstance(report, Ready)).pid
        self.wakeups = 0

    def _reports(self) -> list[Report]:
        select.select([self._inbox], [], [])
        reports = [report for _, report in self._inbox.drain()]
        for report in reports:
            if isinstance(report, ChannelLost | Refused):
                raise SystemExit(f"the node does not do its work: {report}")
        return reports

    def run(self, first: int, count: int, slots: int) -> None:
        """Run ``count`` jobs numbered from ``first``, ``slots`` at a time, and forget each."""
        waiting = list(range(first, first + count))
        free, ended = slots, 0
        while ended < count:
            if free and waiting:
                jobs, waiting = waiting[:free], waiting[free:]
                free -= len(jobs)
                self._transport.send("node", Start(tuple(self._spec(job) for job in jobs)))
            done = [report.key for report in self._reports() if isinstance(report, Ended)]
            self.wakeups += 1
            if done:
                self._transport.send("node", Forget(tuple(done)))
            free += len(done)
            ended += len(done)

    def _spec(self, job: int) -> JobSpec:
        return JobSpec(
            job,
            1,
            self._user,
            "date",
            str(self._directory),
            stdout=f"OAR.{job}.stdout",
            stderr=f"OAR.{job}.stderr",
            walltime=600,
            environment=self._environment,
            nodes=("node",),
            shell=_SHELL,
            allow_root=os.geteuid() == 0,
        )

    def close(self) -> None:
        """End the channel."""
        self._transport.close()
        self._inbox.close()


def processor_seconds(pid: int) -> tuple[float, float]:
    """Return the processor time (seconds) of a process, and of the children it has waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own, children = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
    return own / _TICKS, children / _TICKS


def supervisors_of(agent: int) -> list[int]:
    """Return the process ids of the agent's children."""
    supervisors = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == agent:
            supervisors.append(int(path.parent.name))
    return supervisors


def machine_limit(directory: Path, jobs: int, slots: int) -> float:
    """Return the jobs a second when the same commands are spawned, ``slots`` at a time, and nothing else is done."""
    environment = dict(os.environ)
    began = time.perf_counter()
    running = 0
    for job in range(jobs):
        if running == slots:
            os.wait()
            running -= 1
        outputs = [
            (
                os.POSIX_SPAWN_OPEN,
                fd,
                str(directory / f"limit.{job}.{fd}"),
                os.O_CREAT | os.O_WRONLY | os.O_APPEND,
                0o666,
            )
            for fd in (1, 2)
        ]
        os.posix_spawn(_SHELL, ["sh", "-c", "date"], environment, file_actions=outputs)
        running += 1
    for _ in range(running):
        os.wait()
    return jobs / (time.perf_counter() - began)


def measure(jobs: int, slots: int, user: str) -> AgentMeasurement:
    """Run the benchmark once, after a warm-up that starts the supervisors."""
    with tempfile.TemporaryDirectory(prefix="oarpy-benchmark-") as name:
        directory = Path(name)
        limit = machine_limit(directory, jobs, slots)
        directory.chmod(0o777)  # for jobs of another user
        node = Node(directory, user)
        node.run(1, slots, slots)
        before = _account(node.pid)
        node.wakeups = 0
        began = time.perf_counter()
        node.run(slots + 1, jobs, slots)
        seconds = time.perf_counter() - began
        after = _account(node.pid)
        wakeups = node.wakeups
        node.close()
    own, supervisors, agent, server = ((late - early) * 1000 / jobs for early, late in zip(before, after, strict=True))
    return AgentMeasurement(jobs, slots, seconds, jobs / seconds, limit, own, supervisors, agent, server, wakeups)


def _account(agent: int) -> tuple[float, float, float, float]:
    """Processor seconds so far of: jobs, supervisors, agent, this process."""
    shares = [processor_seconds(pid) for pid in supervisors_of(agent)]
    return (
        sum(children for _, children in shares),
        sum(own for own, _ in shares),
        processor_seconds(agent)[0],
        time.process_time(),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure three times, show the best and save it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--slots", type=int, default=34)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--user", default=getpass.getuser(), help="whose jobs; another's only as root")
    options = parser.parse_args(arguments)
    runs = [measure(options.jobs, options.slots, options.user) for _ in range(options.repeat)]
    best = max(runs, key=lambda run: run.jobs_per_second)
    lines = [
        f"{best.jobs} jobs running date at {best.slots} slots: {best.jobs_per_second:.0f} jobs/s (starts and ends)",
        f"the machine's own limit, sh -c date with its files: {best.limit_per_second:.0f} jobs/s",
    ]
    shares = {"jobs themselves": best.jobs_own_ms, "supervisors": best.supervisors_ms}
    shares |= {"agent": best.agent_ms, "server side": best.server_ms}
    for name, milliseconds in sorted(shares.items(), key=lambda item: -item[1]):
        lines.append(f"  {name:16} {milliseconds:6.3f} ms of processor time a job")
    sys.stdout.write("\n".join(lines) + "\n")
    save("agent", {"best": asdict(best), "jobs_per_second": [run.jobs_per_second for run in runs]})
    return 0


if __name__ == "__main__":
    sys.exit(main())
