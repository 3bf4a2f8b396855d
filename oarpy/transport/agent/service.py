"""The agent's loop: reads messages and passes them on, greets, sends reports, and ends with its channel."""

from __future__ import annotations

import contextlib
import gc
import os
import select
import sys
import time
import traceback

from oarpy.transport.agent import descriptors
from oarpy.transport.agent.calls import commands
from oarpy.transport.agent.calls.call_requests import CallListener
from oarpy.transport.agent.gpu_use import GpuMeter
from oarpy.transport.agent.gpus import gpus
from oarpy.transport.agent.job import record
from oarpy.transport.agent.job.isolation import isolation_of
from oarpy.transport.agent.job.job_run import RunSettings
from oarpy.transport.agent.job.node_jobs import NodeJobs, write_lost
from oarpy.transport.agent.job.supervisor import become_subreaper
from oarpy.transport.agent.job.supervisor_pool import SupervisorPool
from oarpy.transport.agent.job.tombstones import Tombstones
from oarpy.transport.agent.logins.login_notes import remove_all_notes
from oarpy.transport.agent.orders import Orders
from oarpy.transport.agent.outbox import Outbox
from oarpy.transport.agent.programs import install_program
from oarpy.transport.agent.scripts.health import HealthCheck
from oarpy.transport.agent.scripts.launchers import Launchers
from oarpy.transport.agent.scripts.scripts import Scripts
from oarpy.transport.agent.statedir import StateDir, StateError, boot_id
from oarpy.transport.agent.steps.change_bell import Bell
from oarpy.wire.frames import Malformed
from oarpy.wire.jobs import UnreadableSpec
from oarpy.wire.lines import Lines, write_line
from oarpy.wire.messages import (
    AgentError,
    Check,
    Checked,
    CheckHealth,
    Gpus,
    JobReport,
    Knocked,
    Load,
    MeasureGpus,
    Ping,
    Pong,
    Ready,
    Refused,
    Start,
    TellGpus,
    TellLoad,
    decode_command,
    encode_reports,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from oarpy.wire.jobs import JobSpec
    from oarpy.wire.messages import Command

_TICK = 1.0
_PRUNE_PERIOD = 3600.0
_LOG_LIMIT = 1 << 20


class Agent:
    """One agent on one state directory. All truth is on disk: several agents at once do no harm."""

    def __init__(self, settings: dict[str, Any], source: int = 0, sink: int = 1) -> None:
        self._state = StateDir(settings["state"])
        self._state.create()
        self._boot = settings.get("boot_id") or boot_id()
        self._incarnation = self._enter_incarnation()
        self._machine = settings["machine_root"]
        self._source = source
        self._lines = Lines(source)
        self._outbox = Outbox(sink)
        self._tombstones = Tombstones(self._state.forgotten, settings["keep_days"])
        self._tombstones.refresh()
        self._next_prune = 0.0
        self._poll = select.epoll()
        self._bell = Bell(self._state.bell)
        self._knocks = CallListener(self._state.root, self._poll, select.EPOLLIN)
        with contextlib.suppress(OSError):  # jobs run without them
            if packed := settings.pop("commands", None):
                commands.install(self._state.commands, *packed)
            if adopter := settings.pop("adopter", None):
                install_program(self._state.commands, "oaradopt", *adopter)
        self._isolation = isolation_of(settings)
        private = settings["private_directories"]
        run = RunSettings(settings["kill_patience"], settings["start_patience"], settings["pam_service"], private)
        pool = SupervisorPool(self._state, self._isolation, self._poll, select.EPOLLIN, run)
        self._pool = pool
        self._jobs = NodeJobs(
            self._state, settings["instance"], self._tombstones, pool, self._isolation, self._outbox, run
        )
        self._scripts = Scripts(
            self._state, settings["instance"], self._tombstones, pool, self._outbox, settings["keep_days"]
        )
        self._launchers = Launchers(self._state, settings["instance"], pool, self._outbox, run)
        self._meter = GpuMeter(self._machine, self._poll, self._outbox, pool.adopt)
        self._health = HealthCheck(self._state, self._poll, self._outbox, pool.adopt)
        self._orders = Orders(self._state, self._tombstones, self._jobs, self._scripts, self._outbox)
        self._obey: dict[type[Command], Callable[[Any], None]] = {
            **self._orders.obeys(),
            **self._scripts.obeys(),
            **self._launchers.obeys(),
            Start: self._on_start,
            Ping: self._on_ping,
            Check: self._on_check,
            TellLoad: self._on_tell_load,
            TellGpus: self._on_tell_gpus,
            MeasureGpus: self._on_measure_gpus,
            CheckHealth: self._health.on_check,
        }

    def serve(self) -> None:
        """Work until the channel ends."""
        become_subreaper()
        descriptors.allow_many()
        self._poll.register(self._source, select.EPOLLIN)
        if self._bell.fd >= 0:
            self._poll.register(self._bell.fd, select.EPOLLIN)
        self._greet()
        gc.collect()
        gc.freeze()
        next_tick = 0.0
        open_channel = True
        while open_channel:
            now = time.monotonic()
            if now >= next_tick:
                next_tick = now + _TICK
                self._tick(now)
            if self._bell.listen(self._jobs.follows or self._scripts.awaits or self._launchers.awaits):
                self._look_around()  # changes from before the bell was listened to
            self._outbox.flush()
            wait = 0.0 if self._jobs.has_starts else max(0.0, next_tick - time.monotonic())
            for fd, _events in self._poll.poll(wait):
                if fd == self._source:
                    open_channel = self._read()
                elif fd == self._bell.fd:
                    self._bell.clear()
                    self._look_around()
                elif fd == self._meter.fd:
                    self._meter.hear()
                elif fd == self._health.fd:
                    self._health.hear()
                elif fd == self._knocks.fd:
                    for token in self._knocks.hear():
                        self._outbox.say(Knocked(token))
                else:
                    self._jobs.hear(fd)
            self._jobs.start_some()

    def _tick(self, now: float) -> None:
        self._state.check_there()  # the next agent makes it again, and reports that the node has forgotten
        self._pool.trim()
        self._knocks.listen()
        self._look_around()
        if now >= self._next_prune:
            self._next_prune = now + _PRUNE_PERIOD
            self._tombstones.prune()
            self._scripts.prune()
            self._jobs.sweep_private()

    def _look_around(self) -> None:
        self._jobs.look_around()
        self._scripts.look_around()
        self._launchers.look_around()
        self._orders.look_around()

    def _read(self) -> bool:
        lines = self._lines.read()
        if lines is None:
            return False
        for line in lines:
            if line is None:
                self._outbox.complain("line too long")
            elif line.strip():
                self._handle(line)
        return True

    def _handle(self, line: bytes) -> None:
        try:
            command = decode_command(line)
            self._obey[type(command)](command)
        except Malformed as error:
            self._outbox.complain(str(error))
        except OSError as error:
            self._outbox.complain(f"{self._state.root}: {error.strerror or error}")

    def _on_ping(self, ping: Ping) -> None:
        self._outbox.say(Pong(ping.token, time.time()))

    def _on_check(self, _check: Check) -> None:
        self._outbox.say(Checked(self._state.problem() or self._jobs.problem() or self._health.problem()))

    def _on_tell_load(self, _order: TellLoad) -> None:
        with open("/proc/meminfo", encoding="ascii") as lines:
            memory = dict(line.split(":") for line in lines)
        with open("/proc/uptime", encoding="ascii") as line:
            uptime = float(line.read().split()[0])
        kibibytes = int(memory["MemAvailable"].split()[0])
        self._outbox.say(Load(os.getloadavg()[0], kibibytes // 1024, int(uptime)))

    def _on_tell_gpus(self, _order: TellGpus) -> None:
        self._outbox.say(Gpus(len(gpus(self._machine))))

    def _on_measure_gpus(self, order: MeasureGpus) -> None:
        self._meter.measure(order.gpus)

    def _on_start(self, start: Start) -> None:
        fence = start.incarnation
        wanted: list[JobSpec] = []
        for spec in start.jobs:
            if isinstance(spec, UnreadableSpec):
                self._outbox.say(start.refusal(spec.key, spec.problem))
            elif fence not in ("", self._incarnation):
                self._outbox.say(Refused(spec.key, "INCARNATION", "first sent to an earlier life of this node"))
            elif spec.start_deadline and time.time() > spec.start_deadline:
                self._outbox.say(Refused(spec.key, "START_DEADLINE", "the start came too late"))
            else:
                wanted.append(spec)
        self._jobs.start(wanted, durable=not fence)

    def _enter_incarnation(self) -> str:
        """Read or make the name of the node's present incarnation.

        After a reboot no job runs any more, even if its record says so: such a job is lost.
        """
        lock = self._state.lock()
        try:
            boot, identity = self._state.read_incarnation()
            if boot != self._boot:
                for key in self._state.job_keys():
                    self._close_as_lost(key)
                remove_all_notes(self._state)
                identity = self._state.write_incarnation(self._boot)
        finally:
            os.close(lock)
        return f"{self._boot}:{identity}"

    def _close_as_lost(self, key: str) -> None:
        # The line "started" may not have reached the disk before the power went: a bare claim counts as started.
        job_record, held = record.lock_record(self._state.jobs, key, create=False)
        if job_record is None:
            return
        history = job_record.history()
        if held and history.ended is None:
            write_lost(job_record, history, 0, "the node was restarted")
        job_record.close()

    def _greet(self) -> None:
        """Send Ready with every job that has a record, then the history of each; follow the jobs that are not over."""
        known: list[tuple[str, record.History]] = []
        for key in self._state.job_keys():
            job_record, held = record.lock_record(self._state.jobs, key, create=False)
            if job_record is None:
                continue
            history = job_record.history()
            job_record.close()
            known.append((key, history))
            if history.ended is None and not (held and history.state == record.CLAIMED):
                self._jobs.watch(key, history.stage)
        reports = tuple(JobReport(record.job_of(key), history.state) for key, history in known)
        highest = max((report.key.job for report in reports), default=0)
        highest = max(highest, self._tombstones.highest)
        self._outbox.say(Ready(os.getpid(), self._boot, self._incarnation, time.time(), reports, highest))
        for key, history in known:
            self._outbox.tell(key, history)


def main(settings: dict[str, Any]) -> None:
    """Entry point on the node: serve the channel on standard input and output until it ends."""
    os.umask(0o022)
    try:
        agent = Agent(settings)
        _keep_errors(settings["state"])
        agent.serve()
    except BrokenPipeError:
        sys.exit(0)
    except Exception as error:  # the last chance to say what went wrong; jobs go on in any case
        traceback.print_exc()
        detail = str(error) if isinstance(error, (StateError, OSError)) else f"{type(error).__name__}: {error}"
        write_line(1, encode_reports([AgentError(detail)]))
        sys.exit(1)


def _keep_errors(directory: str) -> None:
    """Send error output to a file of the state directory: a supervisor must not hold on to the channel's."""
    path = os.path.join(directory, "agent.log")
    flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND
    if os.path.exists(path) and os.path.getsize(path) > _LOG_LIMIT:
        flags |= os.O_TRUNC
    log = os.open(path, flags, 0o600)
    os.dup2(log, 2)
    os.close(log)
