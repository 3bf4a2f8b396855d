"""A cluster that runs oarpy, through its door."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from oarpy.grid.calls.json_lines import DoorError, PartAnswer, encode, read_answer, read_call, read_reply
from oarpy.grid.calls.parts import PartOfTransaction, PreparedPart
from oarpy.grid.calls.table import (
    MOST_PARTS,
    Amend,
    Answer,
    Call,
    CallRefused,
    Cancel,
    ClusterSilent,
    Estimate,
    EstimateInTurn,
    Offers,
    Prepare,
    PrepareAll,
    Question,
)
from oarpy.grid.clusters.door_channel import DoorChannel
from oarpy.model.errors import Unreachable, UsageError

_SECONDS = 20.0
"""The seconds that a cluster has to answer a call."""

_LINE = 1 << 20
"""Bytes of the parts of a line; one part may have more."""
_PLANNING_SECONDS = 60.0
"""The seconds that it has where it may have to plan."""
_PLANNING = (Estimate, EstimateInTurn, Offers, Prepare, PrepareAll, Amend)


class OarpyCluster:
    """Asks the door behind the command ``words``, such as ``["ssh", "-i", "KEY", "oargrid@host"]``.

    Implements :class:`oarpy.grid.calls.table.Cluster`; its calls wait for ``seconds`` instead of the usual time.
    """

    def __init__(self, name: str, words: Sequence[str], *, seconds: float | None = None) -> None:
        self._name = name
        self._channel = DoorChannel(name, words)
        self._seconds = seconds
        self._questions = itertools.count(1)

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self._name

    def ask(self, call: Call[Answer]) -> Answer:
        """Return the cluster's answer, in the form that is common to all clusters."""
        answer: Answer = self._answer(call)
        return answer

    def close(self) -> None:
        """End the connection."""
        self._channel.close()

    def _answer(self, call: Call[Any]) -> Any:
        match call:
            case PrepareAll():
                return self._prepare_all(call)
            case Estimate(requests=requests):
                return self._ends(self._told(call), len(requests))
            case EstimateInTurn(count=count):
                return self._ends(self._told(call), count)
            case Cancel():
                return self._told(call) is not False
            case _:
                return self._told(call)

    def _prepare_all(self, call: PrepareAll) -> list[PreparedPart | CallRefused]:
        """Have queued parts made, as many with each line as fit into it."""
        results: list[PreparedPart | CallRefused] = []
        for place, some in enumerate(_lines_of(call.parts)):
            answers: list[PartAnswer] = self._told(PrepareAll(some, call.ttl, key=f"{call.key}:{place}"))
            self._complete(answers, len(some))
            results += map(self._prepared_or_refused, answers)
        return results

    def _told(self, call: Call[Any]) -> Any:
        """Send the line of a call and return its answer as it is written. A question gets its key here."""
        if isinstance(call, Question):
            call = msgspec.structs.replace(call, key=f"{os.getpid()}-{next(self._questions)}")
        line = encode(call)
        try:
            # a call that the cluster would not take is refused here, and does not end the connection
            read_call(line)
        except UsageError as error:
            raise CallRefused(error.message, hint=error.hint) from None
        seconds = _PLANNING_SECONDS if isinstance(call, _PLANNING) else _SECONDS
        answer = self._channel.ask(line, self._seconds or seconds)
        try:
            reply = read_reply(answer)
            if reply.key != call.key:
                raise ValueError(f"it answers '{reply.key[:40]}'")
            if isinstance(reply.error, DoorError):
                raise self._refusal(reply.error)
            if reply.answer is msgspec.UNSET:
                raise ValueError("an answer without an answer")
            return read_answer(type(call), reply.answer)
        except ValueError as error:
            raise self._channel.break_off(f"what it says is no answer: {str(error)[:200]}") from None

    def _complete(self, answers: Sequence[object], wanted: int) -> None:
        if len(answers) != wanted:
            raise self._channel.break_off(f"{len(answers)} answers to {wanted} questions")

    def _ends(self, answers: Sequence[float | None], wanted: int) -> list[float]:
        self._complete(answers, wanted)
        return [math.inf if end is None else end for end in answers]

    def _prepared_or_refused(self, answer: PartAnswer) -> PreparedPart | CallRefused:
        if answer.prepared is not None:
            return answer.prepared
        refusal = self._refusal(answer.refused or DoorError("", "neither prepared nor refused"))
        if isinstance(refusal, ClusterSilent):
            raise refusal
        return refusal

    def _refusal(self, error: DoorError) -> CallRefused | ClusterSilent:
        """Return the exception for a door's error; silence if the database there is away: the call may be done."""
        if error.status == Unreachable.exit_status:
            return ClusterSilent(f"cluster '{self._name}': {error.message}", hint=error.hint)
        refused = CallRefused(f"cluster '{self._name}': {error.message}", hint=error.hint)
        refused.code, refused.exit_status = error.code, error.status
        return refused


def _lines_of(parts: Sequence[PartOfTransaction]) -> Iterator[list[PartOfTransaction]]:
    """Yield the parts of each line, in their order; the same lines every time."""
    line: list[PartOfTransaction] = []
    length = 0
    for part in parts:
        more = len(encode(part))
        if line and (length + more > _LINE or len(line) == MOST_PARTS):
            yield line
            line, length = [], 0
        line.append(part)
        length += more
    if line:
        yield line
