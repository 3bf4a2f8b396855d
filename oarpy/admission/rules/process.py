"""The process in which rules run: forked from the one that submits, kept warm, replaced when a rule breaks its limits.

::

    process that submits                         process of the rules: no rights, bounded memory, no children
        | -- submissions, and rules if changed ---->|
        |<-- question: name and arguments ----------|  a rule asks the site
        | -- answer, or how asking failed --------->|
        |<-- what each rule did --------------------|  for each submission

Messages to the rules are pickled. Messages from them are JSON that is checked, because a rule may have forged them.
"""

from __future__ import annotations

import builtins
import io
import json
import mmap
import os
import pickle
import select
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from functools import partial
from typing import Any, NoReturn, cast
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Struct

from oarpy.admission.rules.confinement import confine
from oarpy.admission.rules.execution import RuleLimits, RulesRun, failure, run_rules, too_long
from oarpy.admission.rules.rules import AdmissionTrace, RefusedByRule, Rule, RuleFailed, RuleTrace
from oarpy.admission.rules.site import QUESTIONS, Site
from oarpy.model.errors import Unreachable
from oarpy.model.submission import Submission
from oarpy.model.typed_values import Misfit, from_values
from oarpy.wire.frames import CONTENT, MESSAGE, Channel, Gone, Malformed, read_message

DEFAULT_LIMITS = RuleLimits()

_GRACE = 1.5
"""Seconds after its time limit at which a rule that signals do not reach is ended with its process."""

_LARGEST = 2**30
"""Bytes of a message: a submission has the parameters of a whole array."""

_POSITION = struct.Struct("i")


class RuleSet:
    """The enabled rules in the order they run."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(
            sorted((rule for rule in rules if rule.enabled), key=lambda rule: (rule.priority, rule.name))
        )

    def run(
        self, submission: Submission, site: Site, *, limits: RuleLimits = DEFAULT_LIMITS
    ) -> tuple[Submission, AdmissionTrace]:
        """Return ``submission`` after the rules, and the trace of each; ``limits`` are for each rule.

        Raises :class:`RefusedByRule` at the first rule that refuses or fails, and lets :class:`Unreachable` through if
        the site cannot answer.
        """
        (outcome,) = self.run_each([submission], site, limits=limits)
        if isinstance(outcome, RefusedByRule):
            raise outcome
        return outcome

    def run_each(
        self, submissions: Sequence[Submission], site: Site, *, limits: RuleLimits = DEFAULT_LIMITS
    ) -> Iterator[tuple[Submission, AdmissionTrace] | RefusedByRule]:
        """Yield the result for each submission, or its refusal; they are sent in one message.

        Questions about a submission go to ``site`` only after the results before it were yielded.
        """
        if not self.rules:
            yield from ((submission, AdmissionTrace()) for submission in submissions)
            return
        done = 0
        with _one_at_a_time:
            # a rule that breaks its limits ends the process: the rest run in a new one
            while done < len(submissions):
                for traces in _process(limits.memory).run(self.rules, submissions[done:], site, limits):
                    done += 1
                    yield _outcome(submissions[done - 1], AdmissionTrace(traces))


def _outcome(submission: Submission, trace: AdmissionTrace) -> tuple[Submission, AdmissionTrace] | RefusedByRule:
    """Return ``submission`` after the rules, or the first refusal."""
    for rule in trace.rules:
        if rule.refusal:
            refused, hint = RefusedByRule, f"admission rule {rule.rule}"
            if rule.failed:
                refused, hint = RuleFailed, "tell the administrators"
            return refused(rule.refusal, hint=hint, rule=rule.rule, line=rule.line, trace=trace)
    return trace.result(submission), trace


def start_rules(memory: int) -> None:
    """Fork the process of the rules now, with ``memory`` MiB, so that the first submission need not wait for it."""
    _process(memory)


class _Pickler(pickle.Pickler):
    """Pickles dates with their offset in place of a zone: the process of the rules has no files of zones."""

    def reducer_override(self, value: object) -> Any:
        """Return how to pickle a date; other values are left to pickle."""
        if isinstance(value, datetime) and isinstance(value.tzinfo, ZoneInfo):
            offset = value.utcoffset()
            assert offset is not None
            return value.replace(tzinfo=timezone(offset)).__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        return NotImplemented


@dataclass(frozen=True, slots=True)
class _Task:
    """The task of the process. ``rules`` is None if they are the same as in the last task."""

    rules: tuple[Rule, ...] | None
    submissions: Sequence[Submission]
    now: datetime
    settings: Mapping[str, object]
    limits: RuleLimits


class _Question(Struct, frozen=True, forbid_unknown_fields=True):
    """A question of a rule: a method of the site, and its arguments."""

    question: str
    arguments: list[Any]
    named: dict[str, Any]


class _Late(Exception):
    """A rule exceeded its time limit."""


class RuleProcess:
    """The process of the rules, as an object of the process that forked it. ``memory`` is in MiB."""

    def __init__(self, memory: int) -> None:
        # loaded before the fork, for both sides check conditions
        import oarpy.admission.filters.parts
        import oarpy.admission.filters.tree  # noqa: F401

        self.memory = memory
        self._position = mmap.mmap(-1, _POSITION.size)
        self._rules: tuple[Rule, ...] | None = None
        self._socket, theirs = socket.socketpair()
        with theirs:
            parent = os.getpid() if threading.current_thread() is threading.main_thread() else 0
            pid = os.fork()
            if pid == 0:
                _serve(theirs, self._position, memory, parent)
        self._process = os.pidfd_open(pid)
        self._channel = Channel(self._socket)

    def waits(self) -> bool:
        """Tell whether the process runs and waits for a task."""
        if self._process < 0:
            return False
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return not poll.poll(0)

    def run(
        self, rules: tuple[Rule, ...], submissions: Sequence[Submission], site: Site, limits: RuleLimits
    ) -> Iterator[list[RuleTrace]]:
        """Run ``rules`` over one submission after the other, and yield their traces, as long as the process lasts.

        Raises :class:`Unreachable` when ``site`` does.
        """
        self._mark(-1)
        try:
            changed = None if rules == self._rules else rules
            self._send(_Task(changed, submissions, site.now(), site.settings, limits))
            self._rules = rules
            left = len(submissions)
            while left:
                run = self._attend(site, limits)
                left -= 1
                if run.spoiled:
                    self.end()
                yield run.traces
                if run.spoiled:
                    return
        except GeneratorExit:  # the caller does not want the remaining answers
            if left:
                self.end()
            raise
        except (Gone, Malformed, Misfit, _Late) as error:
            self.end()
            yield [self._lost(rules, limits, error)]
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """Kill the process."""
        with suppress(OSError):
            signal.pidfd_send_signal(self._process, signal.SIGKILL)
            os.waitid(os.P_PIDFD, self._process, os.WEXITED)
        self.forget()

    def forget(self) -> None:
        """Close the connections to the process."""
        if self._process >= 0:
            os.close(self._process)
        self._process = -1
        self._socket.close()

    def _attend(self, site: Site, limits: RuleLimits) -> RulesRun:
        """Answer questions until the rules are through.

        Raises :class:`Gone` when the process ends, and :class:`_Late` when a rule exceeds its time. The time to answer
        its questions does not count.
        """
        allowed = limits.seconds + _GRACE
        position, until = self._running(), time.monotonic() + allowed
        while True:
            message = self._message(until)
            if position != (position := self._running()):
                until = time.monotonic() + allowed
            elif time.monotonic() >= until:
                raise _Late
            if message is None:
                continue
            if "question" not in message:
                return from_values(message, RulesRun)
            since = time.monotonic()
            answer = _answer(site, from_values(message, _Question))
            until += time.monotonic() - since
            with suppress(Gone):  # a rule that was interrupted meanwhile has reported that
                self._send(answer)

    def _message(self, until: float) -> dict[str, object] | None:
        """Return the next message; None when there was none by ``until``."""
        self._socket.settimeout(max(until - time.monotonic(), 0.001))
        try:
            return read_message(self._channel.receive(_LARGEST)[1])
        except Gone as gone:
            if isinstance(gone.__context__, TimeoutError):
                return None
            raise

    def _send(self, value: object) -> None:
        content = io.BytesIO()
        _Pickler(content, pickle.HIGHEST_PROTOCOL).dump(value)
        self._channel.send(CONTENT, content.getvalue())

    def _mark(self, position: int) -> None:
        _POSITION.pack_into(self._position, 0, position)

    def _running(self) -> int:
        """Return the position of the rule that runs or ran last; -1 before the first."""
        return int(_POSITION.unpack_from(self._position)[0])

    def _lost(self, rules: tuple[Rule, ...], limits: RuleLimits, error: Exception) -> RuleTrace:
        """Return the trace of the rule with which the process was lost."""
        name = rules[min(max(self._running(), 0), len(rules) - 1)].name
        reason = too_long(limits) if isinstance(error, _Late) else f"its process ended ({error})"
        return RuleTrace(name, 0.0, refusal=failure(name, None, reason), failed=True)


_kept: RuleProcess | None = None
_one_at_a_time = threading.Lock()


def _process(memory: int) -> RuleProcess:
    """Return the process for the rules of this one; make a new one if it ended or had another amount of memory."""
    global _kept
    if _kept is not None and not (_kept.memory == memory and _kept.waits()):
        _kept.end()
        _kept = None
    if _kept is None:
        _kept = RuleProcess(memory)
    return _kept


def _disown() -> None:
    """Give up the process of the rules in each process forked from this one: it belongs to its parent."""
    global _kept, _one_at_a_time
    if _kept is not None:
        _kept.forget()
    _kept, _one_at_a_time = None, threading.Lock()


os.register_at_fork(after_in_child=_disown)


def _answer(site: Site, question: _Question) -> tuple[str, Any]:
    """Return ``"", answer`` of the site, or the name and the text of the error with which it failed.

    Raises :class:`Unreachable` if the site cannot answer.
    """
    try:
        if question.question not in QUESTIONS:
            raise AttributeError(f"a site has no '{question.question[:60]}', only {', '.join(sorted(QUESTIONS))}")
        named = {name: _read(value) for name, value in question.named.items()}
        return "", getattr(site, question.question)(*map(_read, question.arguments), **named)
    except (KeyboardInterrupt, Unreachable):
        raise
    except BaseException as error:
        return type(error).__name__, str(error)


_KINDS: Mapping[str, tuple[type, Callable[[Any], object], Callable[[Any], object]]] = {
    "instant": (datetime, datetime.isoformat, datetime.fromisoformat),
    "day": (date, date.isoformat, date.fromisoformat),
    "seconds": (timedelta, timedelta.total_seconds, lambda seconds: timedelta(seconds=seconds)),
    "number": (Decimal, str, Decimal),
}
"""The kinds of values without a JSON form that a rule may get in an answer: how to write and read each.

Instants come before days, because ``datetime`` is a kind of ``date``.
"""


def _written(value: object) -> object:
    """Return a value without a JSON form as an object of one key, its kind; a set, or the like, as a list."""
    for kind, (known, write, _) in _KINDS.items():
        if isinstance(value, known):
            return {kind: write(value)}
    return list(cast("Iterable[object]", value))


def _read(value: object) -> object:
    """Return a value as it was before :func:`_written`."""
    if isinstance(value, list):
        return [_read(item) for item in value]
    if isinstance(value, dict) and len(value) == 1:
        ((kind, text),) = value.items()
        if kind in _KINDS:
            return _KINDS[kind][2](text)
    return value


def _encoded(run: RulesRun) -> bytes:
    try:
        return msgspec.json.encode(run)
    except UnicodeEncodeError:  # a rule may note invalid text; json writes it in ASCII
        return json.dumps(msgspec.to_builtins(run)).encode()


class _AskedSite:
    """The site inside the process of the rules: it has the values of the task, and asks for the rest."""

    def __init__(self, channel: Channel, task: _Task) -> None:
        self._channel = channel
        self.now = lambda: task.now
        self.settings = task.settings

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return partial(self._ask, name)

    def _ask(self, name: str, *arguments: object, **named: object) -> Any:
        question = {"question": name, "arguments": arguments, "named": named}
        self._channel.send(MESSAGE, json.dumps(question, default=_written).encode())
        failed, answer = pickle.loads(self._channel.receive(_LARGEST)[1])
        if failed:
            _fail(failed, answer)
        return answer


def _fail(name: str, text: str) -> NoReturn:
    """Raise an error of the site in a rule: as itself if Python knows it, else under its name."""
    known = getattr(builtins, name, None)
    if isinstance(known, type) and issubclass(known, BaseException):
        raise known(text)
    raise type(name, (Exception,), {})(text)


def _serve(connection: socket.socket, position: mmap.mmap, memory: int, parent: int) -> NoReturn:
    """Run as the process of the rules: carry out one task after the other until the connection is closed."""
    with suppress(BaseException):
        confine(connection.fileno(), memory, parent)
        channel = Channel(connection)
        rules: tuple[Rule, ...] = ()
        begins = partial(_POSITION.pack_into, position, 0)
        run = RulesRun([])
        while not run.spoiled:
            task: _Task = pickle.loads(channel.receive(_LARGEST)[1])
            rules = rules if task.rules is None else task.rules
            site = cast(Site, _AskedSite(channel, task))
            for submission in task.submissions:
                run = run_rules(rules, submission, site, task.limits, begins)
                channel.send(MESSAGE, _encoded(run))
                if run.spoiled:
                    break
    os._exit(0)
