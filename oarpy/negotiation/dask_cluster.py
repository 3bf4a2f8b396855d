"""Dask on one job that grows and shrinks. Needs the extra ``dask``, and no other module imports this one.

::

    from dask.distributed import Client
    from oarpy.negotiation.dask_cluster import NegotiatedCluster

    with NegotiatedCluster(hosts=2, walltime=3600) as cluster, Client(cluster) as client:
        cluster.adapt(maximum=16)
        print(sum(client.gather(client.map(work, range(500)))))

The scheduler runs in this process, a worker on each host of the job. Hosts beyond the first ones are revocable: any
other job that needs them gets them, after the results on them were copied to workers that stay.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shlex
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from distributed import Scheduler
from distributed.core import Status, rpc
from distributed.deploy.adaptive import Adaptive
from distributed.deploy.cluster import Cluster as DaskCluster
from distributed.utils import silence_logging_cmgr

from oarpy.negotiation.exchange import flat
from oarpy.negotiation.launchers import Choice, rigid
from oarpy.negotiation.messages import REVOCABLE
from oarpy.negotiation.negotiated_job import NegotiatedJob
from oarpy.negotiation.profiles import BusyHosts
from oarpy.negotiation.run_times import Cluster

_SOON = 1.5
"""Seconds: if an extension starts later than this, a smaller one is requested."""
_BEFORE_RECLAIM = 3.0
"""Seconds before hosts are taken by which their results are copied, even if tasks still run on them."""
_LONGEST_WAIT = 30.0
"""Seconds for which running tasks may go on, on hosts that no other job wants, before these are given back."""
_POLL = 0.1
_CLOSE_TIMEOUT = 10.0
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
"""Seconds before a worker that ended by itself is started again."""

Command = Callable[[int, str, Sequence[str]], Sequence[str]]
"""Makes of a job, a host and a program the command that runs the program on that host."""


def over_oarsh(job: int, host: str, program: Sequence[str]) -> list[str]:
    """Return the command that runs a program on a host of a job."""
    return ["oarsh", "-j", str(job), "-n", host, shlex.join(program)]


class HostAdaptive(Adaptive):  # type: ignore[misc]
    """Dask's rules for growing and shrinking. The first host of a job stays as long as the job."""

    async def workers_to_close(self, target: int) -> list[str]:
        """Return the workers of hosts to give back, never the first."""
        closable = [name for name in await super().workers_to_close(target - 1) if name != self.cluster.first_host]
        return closable[: max(0, len(self.plan) - target)]

    async def scale_down(self, workers: Sequence[str]) -> None:
        """Give hosts back once their results are elsewhere."""
        await self.cluster.scale_down(workers)


class HostWorker:
    """The worker on a host: a process of ours which leads to it, started again if it ends by itself."""

    def __init__(self, command: Sequence[str], log: str, say: Callable[[str], None]) -> None:
        self.command = command
        self.log = log
        self.say = say
        self.leaves = False
        self._process: asyncio.subprocess.Process | None = None
        self._task = asyncio.ensure_future(self._run())

    async def close(self) -> None:
        """Wait until it has ended; kill it if that takes too long."""
        self.leaves = True
        if self._process is None or self._process.returncode is not None:
            self._task.cancel()
        done, _ = await asyncio.wait([self._task], timeout=_CLOSE_TIMEOUT)
        if not done and self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        pause = _FIRST_PAUSE
        while not self.leaves:
            with open(self.log, "ab") as log:
                self._process = await asyncio.create_subprocess_exec(
                    *self.command, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
                )
            status = await self._process.wait()
            if not self.leaves:
                self.say(f"a worker ended with {status}, and is started again in {pause:g} s: {' '.join(self.command)}")
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)


class NegotiatedCluster(DaskCluster):  # type: ignore[misc]
    """Dask workers on the hosts of one job.

    The job has ``hosts`` hosts at first, for at most ``walltime`` seconds: of the cluster ``on``, or of the cluster
    that has them free first. ``scale`` and ``adapt`` change how many it holds. ``arguments`` are options of ``oarsub``,
    such as a project. ``threads`` and ``worker_options`` are those of ``dask worker``, ``scheduler_options`` those of
    ``distributed.Scheduler``, ``options`` those of dask's ``Cluster``. The output of a worker goes to a file of its own
    in ``log_directory``, if that is given. Raises MessageRefused and NotConnected.
    """

    status: Status
    workers: dict[str, HostWorker]

    def __init__(
        self,
        hosts: int = 1,
        walltime: float = 3600,
        on: str | None = None,
        arguments: Sequence[str] = ("-n", "dask"),
        threads: int = 1,
        worker_options: Sequence[str] = (),
        python: str = sys.executable,
        scheduler_options: Mapping[str, Any] | None = None,
        log_directory: str | None = None,
        new_job: Callable[..., Any] = NegotiatedJob,
        command: Command = over_oarsh,
        **options: Any,
    ) -> None:
        self.scheduler: Any = None
        self.job: Any = None
        self.workers = {}
        self.first_host: str | None = None
        self.ended: str | None = None
        self._first = hosts
        self._walltime = walltime
        self._on = on
        self._arguments = arguments
        self._threads = threads
        self._worker_options = worker_options
        self._python = python
        self._scheduler_options = {"dashboard": False, "dashboard_address": ":0", **(scheduler_options or {})}
        self._log_directory = log_directory
        self._new_job = new_job
        self._command = command
        self._sizes: dict[str, int] = {}
        self._chosen: Choice | None = None
        self._cluster = ""
        self._wanted = hosts
        self._asked = 0
        self._tag: Any = None
        self._over = threading.Event()
        self._quieter = contextlib.ExitStack()
        self._quieter.enter_context(silence_logging_cmgr(level=logging.WARNING))
        self._tasks: set[asyncio.Future[None]] = set()
        super().__init__(**{"quiet": True, **options})
        if not self.called_from_running_loop:
            self._loop_runner.start()
            try:
                self.sync(self._start)
            except BaseException:
                self.close()
                raise

    # Interface for dask

    @property
    def plan(self) -> set[str]:
        """The planned workers: the workers of the hosts held, and one for each further host wanted."""
        held = {name for name, worker in self.workers.items() if not worker.leaves}
        return held | {f"wanted {number}" for number in range(self._wanted - len(held))}

    @property
    def requested(self) -> set[str]:
        """The requested workers: the planned ones, as wanted hosts are requested at once."""
        return self.plan

    def adapt(self, Adaptive: type[Adaptive] = HostAdaptive, **options: Any) -> Adaptive:
        """Grow and shrink with the work, by dask's rules; at least the first host stays."""
        return super().adapt(Adaptive=Adaptive, **{**options, "minimum": max(1, options.get("minimum") or 0)})

    def scale(self, n: int) -> None:
        """Hold ``n`` hosts, at least one: ask for more, or give back those that cost dask least."""
        self._wanted = max(1, n)
        self.loop.add_callback(self._scale)

    async def scale_down(self, workers: Sequence[str]) -> None:
        """Give these hosts back once their results are elsewhere; waits for hosts are given up."""
        leaving = [name for name in workers if name in self.workers and name != self.first_host]
        self._wanted = max(
            1, self._wanted - len(leaving) - len([name for name in workers if name.startswith("wanted ")])
        )
        self._extend()
        await self._give_back(leaving)

    async def _scale(self) -> None:
        held = [name for name, worker in self.workers.items() if not worker.leaves]
        if len(held) > self._wanted:
            closable = await self.scheduler_comm.workers_to_close(n=len(held) - self._wanted + 1, attribute="name")
            idle = [*dict.fromkeys([*closable, *reversed(held)])]
            leaving = [name for name in idle if name in held and name != self.first_host]
            await self._give_back(leaving[: len(held) - self._wanted])
        self._extend()

    # Beginning and end

    def __await__(self) -> Any:
        """Start, unless that is done already."""

        async def started() -> NegotiatedCluster:
            if self.status == Status.created:
                await self._start()
            return self

        return started().__await__()

    async def _start(self) -> None:
        self.scheduler = await Scheduler(**self._scheduler_options)
        self.scheduler_comm = rpc(self.scheduler.address)
        await super()._start()
        await asyncio.get_running_loop().run_in_executor(None, self._subscribe)
        self._choose(self.job.view)

    def _subscribe(self) -> None:
        """Make the job. This runs in a thread of its own, since it waits for answers."""
        self.job = self._new_job(hear=self._pass_on)
        self.job.subscribe(self._arguments, **({} if self._on is None else {"filter": {"clusters": [self._on]}}))
        clusters = self.job.clusters()["clusters"]
        self._sizes = {name: int(cluster["hosts"]) for name, cluster in clusters.items()}

    async def _close(self) -> None:
        if self.status in (Status.closing, Status.closed):
            return
        if self._adaptive is not None:
            self._adaptive.stop()
        self.status = Status.closing
        for task in self._tasks - {asyncio.current_task()}:
            task.cancel()
        if self.scheduler is not None:
            for address in list(self.scheduler.workers):
                self.scheduler.close_worker(address)
        await asyncio.gather(*(worker.close() for worker in self.workers.values()))
        if self.job is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._leave, self.job)
        await super()._close()
        if self.scheduler is not None:
            await self.scheduler.close()
        self._quieter.close()

    def close(self, timeout: float | None = None) -> Any:
        """End the workers, give the hosts back and stop the scheduler."""
        closed = super().close(timeout)
        if not self.asynchronous:
            self._loop_runner.stop()
        return closed

    def _leave(self, job: NegotiatedJob) -> None:
        """Give all hosts back. A job that has not started ends because it loses its launcher."""
        if self.first_host is not None and job.ended is None:
            job.done()
            self._over.wait(_CLOSE_TIMEOUT)
        job.close()

    # Messages of the server

    def _pass_on(self, message: Mapping[str, Any]) -> None:
        """Pass a message from the thread that received it to the loop."""
        if message["message"] == "ended":
            self._over.set()
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self.loop.add_callback(self._hear, message, dict(self.job.view))

    def _hear(self, message: Mapping[str, Any], view: Mapping[str, BusyHosts]) -> None:
        word = message["message"]
        if self.status != Status.running:
            return
        if word == "changeNotify":
            self._choose(view)
        elif word in ("startNotify", "granted"):
            self._take(word, message)
        elif word == "reclaim":
            self._log(f"reclaim: {' '.join(flat(message['names']))}")
            self._later(self._give_back(flat(message["names"]), message["by"]))
        elif word == "released":
            self._later(self._lose(flat(message["names"])))
        elif word == "estimate" and message["tag"] == self._tag:
            if self._asked > 1 and (message["start"] is None or message["start"] > time.time() + _SOON):
                self._ask(self._asked // 2)
        elif word == "refused":
            self._refused(message)
        elif word == "ended":
            self.ended = message["reason"]
            self._log(f"job {self.job.id} is over: {self.ended}")
            self._later(self._close())

    def _choose(self, view: Mapping[str, BusyHosts]) -> None:
        """Ask for the first hosts on the cluster that has them free first, or keep the request."""
        if not self._sizes or self.first_host is not None:
            return
        clusters = [Cluster(name, size) for name, size in self._sizes.items() if name in view and size >= self._first]
        choice = rigid(clusters, self._first, self._walltime).choose(view, time.time()) if clusters else None
        if choice is None:
            self._log(f"no cluster has {self._first} hosts")
        elif choice == self._chosen:
            self.job.keep()
        else:
            self._chosen = choice
            self.job.request(choice.hosts, choice.walltime)

    def _take(self, word: str, message: Mapping[str, Any]) -> None:
        """Start workers on hosts that the job now has, and ask for the hosts that are still missing."""
        if word == "startNotify":
            self._cluster, names = next(iter(message["names"].items()))
            self.first_host = names[0]
        else:
            self._asked = 0
        self._log(f"{word}: {' '.join(flat(message['names']))}")
        for name in flat(message["names"]):
            command = self._command(self.job.id, name, self._program(name))
            self.workers[name] = HostWorker(command, self._log_file(name), self._log)
        self._extend()

    def _log_file(self, name: str) -> str:
        if self._log_directory is None:
            return os.devnull
        return os.path.join(self._log_directory, f"dask-worker.{self.job.id}.{name}.log")

    def _program(self, name: str) -> list[str]:
        return [
            self._python, "-m", "distributed.cli.dask_worker", self.scheduler.address, "--name", name, "--no-nanny",
            "--no-dashboard", "--nthreads", str(self._threads), "--death-timeout", "60", *self._worker_options,
        ]  # fmt: skip

    def _refused(self, message: Mapping[str, Any]) -> None:
        self._log(f"{message['of']} is refused: {message['reason']}")
        if message["of"] == "extend" and message.get("tag") == self._tag:
            self._asked = 0
            self._wanted = len([worker for worker in self.workers.values() if not worker.leaves])

    # Growing and shrinking

    def _extend(self) -> None:
        """Ask for the wanted hosts that are not held, in place of the request before."""
        if self.first_host is None or self.status != Status.running:
            return
        missing = min(self._wanted, self._sizes[self._cluster]) - len(
            [w for w in self.workers.values() if not w.leaves]
        )
        if missing <= 0 and self._asked:
            self._ask(0)
        elif missing > 0 and (not self._asked or missing < self._asked):
            self._ask(missing)

    def _ask(self, hosts: int) -> None:
        self._asked = hosts
        self._tag = self.job.extend({self._cluster: hosts} if hosts else {}, REVOCABLE)

    async def _give_back(self, names: Sequence[str], by: float | None = None) -> None:
        """Copy the results of these hosts elsewhere and release them; running tasks may end first until ``by``."""
        until = time.time() + _LONGEST_WAIT if by is None else by - _BEFORE_RECLAIM
        leaving = [name for name in names if name in self.workers and not self.workers[name].leaves]
        if not leaving:
            return
        for name in leaving:
            self.workers[name].leaves = True
        await self.scheduler.retire_workers(names=leaving, close_workers=False, remove=False)
        while self._busy(leaving) and time.time() < until:
            await asyncio.sleep(_POLL)
        # again: tasks that ended meanwhile have results too
        await self.scheduler.retire_workers(names=leaving, close_workers=True, remove=True)
        await asyncio.gather(*(self.workers[name].close() for name in leaving))
        self.job.release(leaving)

    def _busy(self, names: Sequence[str]) -> bool:
        """Return whether a task runs on one of these hosts, as far as their workers have reported."""
        return any(state.executing for state in self.scheduler.workers.values() if state.name in names)

    async def _lose(self, names: Sequence[str]) -> None:
        """Forget hosts that the job has lost, and ask for others if they were taken from it."""
        await asyncio.gather(*(self.workers[name].close() for name in names if name in self.workers))
        for name in names:
            self.workers.pop(name, None)
        self._log(f"released: {' '.join(names)}; {len(self.workers)} hosts are left")
        self._extend()

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine beside the handling of messages."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
