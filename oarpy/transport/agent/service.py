"""The agent: reads messages, claims and hands out jobs, reports what happens to them, ends with its channel."""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
import time

from oarpy.transport.agent import processes, record, requests, wire
from oarpy.transport.agent.bell import Bell
from oarpy.transport.agent.environment import remove_files
from oarpy.transport.agent.pool import Pool
from oarpy.transport.agent.statedir import BOOT_ID_FILE, StateDir, StateError, boot_id
from oarpy.transport.agent.supervisor import become_subreaper
from oarpy.transport.agent.tombstones import Tombstones

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from oarpy.transport.agent.record import Record
    from oarpy.transport.agent.supervisor import Supervisor

    Message = dict[str, Any]

VERSION = 1
_TICK = 1.0
_CLEANING_PATIENCE = 5.0
_TRIES = 3


class _Watched:
    """A job whose record somebody else holds: what was last reported, and what to run if it turns out never started."""

    __slots__ = ("reported", "spec", "tries")

    def __init__(self, reported: str, spec: Message | None, tries: int) -> None:
        self.reported = reported
        self.spec = spec
        self.tries = tries


class Agent:
    """One agent on one state directory. All truth is on disk: several agents at once do no harm."""

    def __init__(self, settings: Message, source: int = 0, sink: int = 1) -> None:
        self._instance: str = settings["instance"]
        self._state = StateDir(settings["state"])
        self._state.create()
        self._boot = boot_id(settings.get("boot_id_file") or BOOT_ID_FILE)
        self._incarnation = self._enter_incarnation()
        self._tombstones = Tombstones(self._state.forgotten, settings["keep_days"])
        self._tombstones.refresh()
        self._lines = wire.Lines(source)
        self._source = source
        self._sink = sink
        self._out: list[Message] = []
        self._watched: dict[str, _Watched] = {}
        self._tries: dict[str, tuple[Message, int]] = {}
        self._poll = select.epoll()
        self._pool = Pool(self._state, self._poll, select.EPOLLIN)
        self._bell = Bell(self._state.bell)
        self._handlers: dict[str, Callable[[Message], None]] = {
            "start": self._on_start,
            "kill": self._on_kill,
            "signal": self._on_signal,
            "suspend": self._on_suspend,
            "resume": self._on_resume,
            "walltime": self._on_walltime,
            "clean": self._on_clean,
            "forget": self._on_forget,
            "query": self._on_query,
            "ping": self._on_ping,
        }

    def serve(self) -> None:
        """Work until the channel ends."""
        become_subreaper()
        self._poll.register(self._source, select.EPOLLIN)
        if self._bell.fd >= 0:
            self._poll.register(self._bell.fd, select.EPOLLIN)
        self._greet()
        gc.collect()
        gc.freeze()
        next_tick = time.monotonic() + _TICK
        while True:
            self._flush()
            ready = self._poll.poll(max(0.0, next_tick - time.monotonic()))
            for fd, _events in ready:
                if fd == self._source:
                    if not self._read():
                        return
                elif fd == self._bell.fd:
                    self._bell.clear()
                    self._look_at_watched()
                else:
                    self._hear(fd)
            if time.monotonic() >= next_tick:
                next_tick = time.monotonic() + _TICK
                self._pool.trim()
                self._look_at_watched()

    # What arrives

    def _read(self) -> bool:
        lines = self._lines.read()
        if lines is None:
            return False
        for line in lines:
            if line is None:
                self._complain("line too long")
            elif line.strip():
                self._handle(line)
        return True

    def _handle(self, line: bytes) -> None:
        try:
            message = wire.parse_message(line)
            handler = self._handlers.get(message["type"])
            if handler is None:
                raise wire.BadMessage(f"unknown type '{message['type'][:64]}'")
            handler(message)
        except wire.BadMessage as error:
            self._complain(str(error))
        except OSError as error:
            self._complain(f"{self._state.root}: {error.strerror or error}")

    def _complain(self, text: str) -> None:
        self._say("error", detail=text)

    def _say(self, word: str, key: str = "", **values: object) -> None:
        message: Message = {"type": word}
        pair = record.parse_key(key)
        if pair is not None:
            message["job"], message["attempt"] = pair
        message.update(values)
        self._out.append(message)

    def _flush(self) -> None:
        if self._out:
            messages, self._out = self._out, []
            wire.write_messages(self._sink, messages)

    # Beginning

    def _enter_incarnation(self) -> str:
        """Which life of the node this is. After a reboot nothing runs any more, whatever the records say."""
        lock = self._state.lock()
        try:
            boot, identity = self._state.read_incarnation()
            if boot != self._boot:
                for key in self._state.job_keys():
                    self._close_as_lost(key)
                identity = self._state.write_incarnation(self._boot)
        finally:
            os.close(lock)
        return f"{self._boot}:{identity}"

    def _close_as_lost(self, key: str) -> None:
        # The mark "started" may not have reached the disk before the power went: a bare claim counts as started.
        found, held = record.lock_record(self._state.jobs, key, create=False)
        if found is None:
            return
        history = found.history()
        if held and history.ended is None:
            self._write_lost(found, history, 0, "the node was restarted")
        found.close()

    def _greet(self) -> None:
        keys = [key for key in self._state.job_keys() if record.parse_key(key)]
        reports = []
        later: list[Message] = []
        for key in keys:
            found, held = record.lock_record(self._state.jobs, key, create=False)
            if found is None:
                continue
            history = found.history()
            found.close()
            job, attempt = record.parse_key(key) or (0, 0)
            reports.append({"job": job, "attempt": attempt, "state": history.state})
            self._report(key, history)
            if history.ended is None and not (held and history.started is None):
                self._watched[key] = _Watched(history.state, None, 0)
        later, self._out = self._out, []
        self._say(
            "ready",
            version=VERSION,
            pid=os.getpid(),
            uid=os.geteuid(),
            host=socket.gethostname(),
            boot_id=self._boot,
            incarnation=self._incarnation,
            python=sys.version.split()[0],
            clock=time.time(),
            jobs=reports,
        )
        self._out += later
        self._tombstones.prune()

    # Starting

    def _on_start(self, message: Message) -> None:
        specs = wire.read_specs(message)
        fence = message.get("incarnation", "")
        claims: list[tuple[Record, Message]] = []
        for spec in specs:
            key = record.key_of(spec["job"], spec["attempt"])
            if fence not in ("", self._incarnation):
                self._say("refused", key, reason="INCARNATION", detail="first sent to an earlier life of this node")
            elif spec["start_deadline"] and time.time() > spec["start_deadline"]:
                self._say("refused", key, reason="START_DEADLINE", detail="the start came too late")
            else:
                claimed = self._claim(key, spec)
                if claimed is not None:
                    claims.append((claimed, spec))
        if not claims:
            return
        if not fence:
            self._state.sync_jobs()
        self._tombstones.refresh()
        for claimed, spec in claims:
            self._run(claimed, spec, 1)

    def _claim(self, key: str, spec: Message) -> Record | None:
        """Lock the record of a job that was never started; None (and a report) in every other case."""
        if key in self._watched:
            self._watched[key].spec = spec
        try:
            found, held = record.lock_record(self._state.jobs, key, create=True)
        except OSError as error:
            self._say("refused", key, reason="STATE_DIRECTORY", detail=f"{self._state.jobs}: {error.strerror}")
            return None
        if found is None:
            return None
        if held and found.empty():
            return found
        history = found.history()
        if held and history.started is None and history.ended is None:
            return found
        found.close()
        self._report(key, history)
        if history.ended is None and key not in self._tries:
            self._watch(key, history.state, spec, 0)
        return None

    def _run(self, claimed: Record, spec: Message, tries: int) -> None:
        """Hand a locked, never started job to a supervisor, unless it was forgotten meanwhile."""
        key = claimed.key
        if key in self._tombstones:
            os.unlink(os.path.join(self._state.jobs, key))
            claimed.close()
            self._say("refused", key, reason="FORGOTTEN", detail="this attempt is over")
            return
        self._watched.pop(key, None)
        self._tries[key] = (spec, tries)
        self._pool.run(claimed, self._mark(key), spec)

    def _mark(self, key: str) -> str:
        job, attempt = record.parse_key(key) or (0, 0)
        return processes.mark_of(self._instance, job, attempt)

    # Reporting

    def _hear(self, fd: int) -> None:
        """A supervisor of ours reports, or is gone."""
        supervisor = self._pool.at(fd)
        if supervisor is None:
            return
        report = supervisor.receive()
        if report is None:
            self._lose(supervisor)
            return
        word, key, values = report
        self._say(word, key, **values)
        if word in ("ended", "refused"):
            self._tries.pop(key, None)
            self._pool.release(supervisor)

    def _lose(self, supervisor: Supervisor) -> None:
        key = self._pool.bury(supervisor)
        if key is None:
            return
        spec, tries = self._tries.pop(key, (None, 0))
        self._watch(key, "", spec, tries)
        self._look_at(key)

    def _watch(self, key: str, reported: str, spec: Message | None, tries: int) -> None:
        self._watched[key] = _Watched(reported, spec, tries)

    def _look_at_watched(self) -> None:
        for key in list(self._watched):
            self._look_at(key)

    def _look_at(self, key: str) -> None:
        watched = self._watched[key]
        found, held = record.lock_record(self._state.jobs, key, create=False)
        if found is None:
            del self._watched[key]  # forgotten through another agent, after its end was recorded
            return
        history = found.history()
        if not held:
            if history.state != watched.reported:
                watched.reported = history.state
                self._report(key, history)
            found.close()
        elif history.ended is None and history.started is None:
            self._look_at_claim(found, watched)
        else:
            if history.ended is None:
                history = self._resolve_lost(found, history)
            found.close()
            del self._watched[key]
            self._report(key, history)

    def _look_at_claim(self, found: Record, watched: _Watched) -> None:
        """Claimed, but whoever claimed it died before the command was executed."""
        del self._watched[found.key]
        if watched.spec is None:
            found.close()
        elif watched.tries < _TRIES:
            self._tombstones.refresh()
            self._run(found, watched.spec, watched.tries + 1)
        else:
            found.close()
            self._say("refused", found.key, reason="SUPERVISOR", detail="supervisors die before they can start it")

    def _report(self, key: str, history: record.History) -> None:
        if history.ended is not None:
            names = ("start", "end", "status", "reason", "detail", "left")
            self._say("ended", key, **{name: history.ended.get(name) for name in names})
        elif history.started is not None:
            self._say("started", key, start=history.started["at"])
            if history.suspended:
                self._say("suspended", key, at=history.changed)

    def _resolve_lost(self, found: Record, history: record.History) -> record.History:
        """Started, not ended, and nobody holds it: kill what is left of it and write that down."""
        mark = str((history.started or {}).get("mark") or self._mark(found.key))
        left = processes.kill_marked([mark], self._spared(), _CLEANING_PATIENCE)[mark][1]
        return self._write_lost(found, history, left, "its supervisor was killed")

    def _write_lost(self, found: Record, history: record.History, left: int, detail: str) -> record.History:
        now = time.time()
        start = history.started["at"] if history.started else None
        found.append("ended", now, start=start, end=now, status=None, reason="lost", detail=detail, left=left)
        return found.history()

    def _spared(self) -> set[int]:
        return processes.ancestors() | self._pool.pids()

    # Requests on jobs

    def _on_kill(self, message: Message) -> None:
        grace = message.get("grace")
        if grace is not None and not wire.integer(grace):
            raise wire.BadMessage("kill: 'grace' is not a number of seconds")
        for job, attempt in wire.read_keys(message):
            self._kill(record.key_of(job, attempt), -1 if grace is None else grace)

    def _kill(self, key: str, grace: int) -> None:
        if key in self._watched:
            self._watched[key].spec = None
        found, held = record.lock_record(self._state.jobs, key, create=True)
        if found is None:
            return
        try:
            history = found.history()
            if not held:
                self._ask(found, history, requests.KILL, grace)
                return
            if history.ended is None and history.started is not None:
                history = self._resolve_lost(found, history)
            elif history.ended is None:
                history = self._kill_unstarted(found)
            self._report(key, history)
        finally:
            found.close()

    def _kill_unstarted(self, found: Record) -> record.History:
        self._tombstones.refresh()
        if found.key in self._tombstones:
            os.unlink(os.path.join(self._state.jobs, found.key))
            self._say("unknown", found.key)
            return found.history()
        now = time.time()
        detail = "killed before it was started"
        found.append("ended", now, start=None, end=now, status=None, reason="killed", detail=detail, left=0)
        return found.history()

    def _ask(self, found: Record, history: record.History, verb: str, value: int) -> None:
        """Leave a request and rouse the supervisor; one that has not started the command looks by itself when it has."""
        requests.leave_request(self._state, found.key, verb, value)
        if history.started is None:
            history = found.history()
        if history.started is not None:
            requests.rouse(found, int(history.started["pid"]))
        if found.key not in self._tries and found.key not in self._watched:
            self._watch(found.key, history.state, None, 0)

    def _ask_running(self, message: Message, verb: str, value: int) -> list[tuple[str, bool]]:
        """Ask for something that only a running job can do; return which jobs took it."""
        answers = []
        for job, attempt in wire.read_keys(message):
            key = record.key_of(job, attempt)
            found, held = record.lock_record(self._state.jobs, key, create=False)
            running = found is not None and not held
            if found is not None:
                if running:
                    self._ask(found, found.history(), verb, value)
                found.close()
            answers.append((key, running))
        return answers

    def _on_signal(self, message: Message) -> None:
        number = message.get("signal")
        if not isinstance(number, int) or number not in signal.valid_signals():
            raise wire.BadMessage("signal: 'signal' is not a signal number of this node")
        for key, taken in self._ask_running(message, requests.SIGNAL, int(number)):
            self._say("signalled", key, signal=int(number), taken=taken)

    def _on_suspend(self, message: Message) -> None:
        self._tell_unknown(self._ask_running(message, requests.SUSPEND, 0))

    def _on_resume(self, message: Message) -> None:
        self._tell_unknown(self._ask_running(message, requests.RESUME, 0))

    def _on_walltime(self, message: Message) -> None:
        seconds = message.get("seconds")
        if not wire.integer(seconds, 1):
            raise wire.BadMessage("walltime: 'seconds' is not a positive integer")
        self._tell_unknown(self._ask_running(message, requests.WALLTIME, int(seconds or 0)))

    def _tell_unknown(self, answers: list[tuple[str, bool]]) -> None:
        for key, taken in answers:
            if not taken:
                self._query(key)

    def _on_query(self, message: Message) -> None:
        for job, attempt in wire.read_keys(message):
            self._query(record.key_of(job, attempt))

    def _query(self, key: str) -> None:
        found, held = record.lock_record(self._state.jobs, key, create=False)
        if found is None:
            self._say("unknown", key)
            return
        history = found.history()
        found.close()
        if history.state == record.CLAIMED and held:
            self._say("unknown", key)
            return
        self._report(key, history)
        if history.ended is None and key not in self._tries:
            self._watch(key, history.state, None, 0)

    def _on_clean(self, message: Message) -> None:
        marks = {self._mark(record.key_of(job, attempt)): (job, attempt) for job, attempt in wire.read_keys(message)}
        if not marks:
            return
        result = processes.kill_marked(list(marks), self._spared(), _CLEANING_PATIENCE)
        for mark, (killed, left) in result.items():
            job, attempt = marks[mark]
            self._say("cleaned", record.key_of(job, attempt), killed=killed, left=left)

    def _on_forget(self, message: Message) -> None:
        ready: list[Record] = []
        keys: list[str] = []
        for job, attempt in wire.read_keys(message):
            key = record.key_of(job, attempt)
            found, held = record.lock_record(self._state.jobs, key, create=False)
            if found is not None and not held:
                found.close()
                self._complain(f"forget: job {job} attempt {attempt} is running")
                continue
            keys.append(key)
            if found is not None:
                ready.append(found)
        if keys:
            self._tombstones.add(keys)
        for found in ready:
            os.unlink(os.path.join(self._state.jobs, found.key))
            found.close()
            remove_files(self._state, found.key)
        requests.drop_requests(self._state, set(keys))

    def _on_ping(self, message: Message) -> None:
        token = message.get("token")
        if not isinstance(token, str) or len(token) > 256:
            raise wire.BadMessage("ping: 'token' is not a short text")
        self._say("pong", token=token, clock=time.time())


def main(settings: Message) -> None:
    """Entry point on the node: serve the channel on standard input and output until it ends."""
    os.umask(0o022)
    os.environ.pop(processes.MARK, None)
    try:
        agent = Agent(settings)
    except (StateError, OSError) as error:
        wire.write_messages(1, [{"type": "error", "detail": str(error)}])
        sys.exit(1)
    try:
        agent.serve()
    except BrokenPipeError:
        sys.exit(0)
