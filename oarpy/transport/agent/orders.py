"""What the server asks for about jobs that are there already: kill, signal, suspend, clean, forget, query."""

from __future__ import annotations

import os
import signal
import time

from oarpy.transport.agent import record, requests, wire
from oarpy.transport.agent.environment import remove_files
from oarpy.transport.agent.guests import Guests

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from oarpy.transport.agent.jobs import Jobs
    from oarpy.transport.agent.outbox import Outbox
    from oarpy.transport.agent.record import History, Record
    from oarpy.transport.agent.statedir import StateDir
    from oarpy.transport.agent.tombstones import Tombstones

    Message = dict[str, Any]

_AS_SPECIFIED = -1


class Orders:
    """Carries out messages about known jobs; works for jobs of any agent, through their records and requests."""

    def __init__(self, state: StateDir, tombstones: Tombstones, jobs: Jobs, outbox: Outbox) -> None:
        self._state = state
        self._tombstones = tombstones
        self._jobs = jobs
        self._outbox = outbox
        self._guests = Guests(jobs)

    def handlers(self) -> dict[str, Callable[[Message], None]]:
        """The method for each type of message."""
        return {
            "kill": self._on_kill,
            "terminate": self._on_terminate,
            "signal": self._on_signal,
            "suspend": self._on_suspend,
            "resume": self._on_resume,
            "walltime": self._on_walltime,
            "clean": self._on_clean,
            "forget": self._on_forget,
            "query": self._on_query,
        }

    def _on_kill(self, message: Message) -> None:
        grace = message.get("grace")
        if grace is not None and not wire.integer(grace):
            raise wire.BadMessage("kill: 'grace' is not a number of seconds")
        for key in wire.read_keys(message):
            self._kill(key, _AS_SPECIFIED if grace is None else grace)

    def _kill(self, key: str, grace: int) -> None:
        self._jobs.give_up_start(key)
        found, held = record.lock_record(self._state.jobs, key, create=True)
        if found is None:
            return
        try:
            history = found.history()
            if not held:
                self._ask(found, history, requests.KILL, grace)
                return
            if history.state == record.CLAIMED:
                history = self._kill_unstarted(found, history)
            self._outbox.tell(key, self._jobs.resolve(found, history))
        finally:
            found.close()

    def _kill_unstarted(self, found: Record, history: History) -> History:
        """Leave a mark that a start which comes later will respect."""
        self._tombstones.refresh()
        if found.key in self._tombstones:
            os.unlink(os.path.join(self._state.jobs, found.key))
            self._outbox.say("unknown", found.key)
            return history
        now = time.time()
        detail = "killed before it was started"
        found.append("ended", now, start=None, end=now, status=None, reason="killed", detail=detail, left=0)
        return found.history()

    def _ask(self, found: Record, history: History, verb: str, value: int) -> None:
        """Leave a request and rouse the supervisor; one that has not started the command looks when it has."""
        requests.leave_request(self._state, found.key, verb, value)
        if history.started is None:
            history = found.history()
        if history.started is not None:
            requests.rouse(found, int(history.started["pid"]))
        self._jobs.watch(found.key, history.stage)

    def _ask_running(self, message: Message, verb: str, value: int) -> list[tuple[str, bool]]:
        """Ask for something that only a running job can do; return which jobs took it."""
        answers = []
        for key in wire.read_keys(message):
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
        if not wire.integer(number, 1) or number not in signal.valid_signals():
            raise wire.BadMessage("signal: 'signal' is not a signal number of this node")
        for key, taken in self._ask_running(message, requests.SIGNAL, number):
            guests = not taken and not self._jobs.has_record(key) and self._guests.signal(key, number)
            self._outbox.say("signalled", key, signal=number, taken=taken or guests)

    def _on_terminate(self, message: Message) -> None:
        for key in wire.read_keys(message):
            if not self._jobs.has_record(key):
                self._guests.terminate(key)

    def _on_suspend(self, message: Message) -> None:
        self._pause(message, requests.SUSPEND, "suspended", self._jobs.stop)

    def _on_resume(self, message: Message) -> None:
        self._pause(message, requests.RESUME, "resumed", self._jobs.go_on)

    def _pause(self, message: Message, verb: str, word: str, here: Callable[[str], None]) -> None:
        """Have supervisors do it for jobs that are led from this node, and do it ``here`` for what runs of others."""
        for key, taken in self._ask_running(message, verb, 0):
            if taken:
                continue
            if self._jobs.has_record(key):
                self._query(key)
            else:
                here(key)
                self._outbox.say(word, key, at=time.time())

    def _on_walltime(self, message: Message) -> None:
        seconds: Any = message.get("seconds")
        if not wire.integer(seconds, 1):
            raise wire.BadMessage("walltime: 'seconds' is not a positive integer")
        answers = self._ask_running(message, requests.WALLTIME, seconds)
        for key, taken in answers:
            if taken:
                self._outbox.say("walltime", key, seconds=seconds)
        self._tell_others(answers)

    def _tell_others(self, answers: list[tuple[str, bool]]) -> None:
        for key, taken in answers:
            if not taken:
                self._query(key)

    def _on_query(self, message: Message) -> None:
        for key in wire.read_keys(message):
            self._query(key)

    def _query(self, key: str) -> None:
        found, held = record.lock_record(self._state.jobs, key, create=False)
        if found is None:
            self._outbox.say("unknown", key)
            return
        history = found.history()
        found.close()
        if held and history.state == record.CLAIMED:
            self._outbox.say("unknown", key)
            return
        self._outbox.tell(key, history)
        if history.ended is None:
            self._jobs.watch(key, history.stage)

    def _on_clean(self, message: Message) -> None:
        keys, grace = wire.read_keys(message), message.get("grace", 0)
        if not wire.integer(grace):
            raise wire.BadMessage("clean: 'grace' is not a number of seconds")
        if not grace:
            self._guests.forget(keys)
        self._clean(self._guests.hold_back(keys, grace) if grace else keys)

    def look_around(self) -> None:
        """Clean up after jobs that were given time."""
        self._clean(self._guests.due())

    def _clean(self, names: list[str]) -> None:
        keys = {self._jobs.mark(key): key for key in names}
        if not keys:
            return
        # Remembered first: a step that comes now is either refused, or its processes are found below.
        self._tombstones.add(list(keys.values()))
        for key in keys.values():
            self._jobs.thaw(key)
        for mark, (killed, left) in self._jobs.clean(list(keys)).items():
            remove_files(self._state, keys[mark])
            memory_kills = self._jobs.memory_kills(keys[mark])
            left = max(left, self._jobs.end_group(keys[mark]))
            self._outbox.say("cleaned", keys[mark], killed=killed, left=left, memory_kills=memory_kills)

    def _on_forget(self, message: Message) -> None:
        opened: list[Record] = []
        try:
            keys = [key for key in wire.read_keys(message) if self._may_forget(key, opened)]
            if keys:
                self._tombstones.add(keys)
            for found in opened:
                os.unlink(os.path.join(self._state.jobs, found.key))
                remove_files(self._state, found.key)
            requests.drop_requests(self._state, set(keys))
        finally:
            for found in opened:
                found.close()

    def _may_forget(self, key: str, opened: list[Record]) -> bool:
        found, held = record.lock_record(self._state.jobs, key, create=False)
        if found is not None and not held:
            found.close()
            self._outbox.complain(f"forget: job {key} is running")
            return False
        if found is not None:
            opened.append(found)
        return True
