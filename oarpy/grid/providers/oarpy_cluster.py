"""A cluster that runs oarpy, through its door."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from oarpy.grid.door import calls
from oarpy.grid.door.calls import DoorCall, DoorError, PartFields, RequestFields, encode, read_reply
from oarpy.grid.provider import (
    CallRefused,
    ClusterDescription,
    ClusterSilent,
    EvictableJob,
    GridPart,
    KnownPart,
    PartEvent,
    PartRequest,
    PreparedPart,
)
from oarpy.grid.providers.door_channel import DoorChannel
from oarpy.model.errors import Unreachable, UsageError

_SECONDS = 20.0
"""What a cluster has to answer a call."""

_LINE = 1 << 20
"""Bytes of the parts of a line; one part may have more."""
_PLANNING_SECONDS = 60.0
"""The same where it has to plan."""


class OarpyCluster:
    """Asks the door behind the command ``words``, such as ``["ssh", "-i", "KEY", "oargrid@host"]``.

    Implements :class:`oarpy.grid.provider.Provider`; its calls wait for ``seconds`` instead of the usual time.
    """

    def __init__(self, name: str, words: Sequence[str], *, seconds: float | None = None) -> None:
        self._name = name
        self._channel = DoorChannel(name, words)
        self._seconds = seconds
        self._reads = itertools.count(1)

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self._name

    def describe(self) -> ClusterDescription:
        """Return what the cluster is."""
        facts: ClusterDescription = self._ask(calls.DescribeCall(key=self._key()))
        return facts

    def idle(self, request: PartRequest, begin: float | None = None) -> int:
        """Return how many processors could be claimed."""
        idle: int = self._ask(calls.IdleCall(key=self._key(), request=_fields(request), begin=begin))
        return idle

    def waiting(self) -> Sequence[KnownPart]:
        """Return the parts that wait."""
        parts: list[KnownPart] = self._ask(calls.WaitingCall(key=self._key()))
        return parts

    def estimate(
        self,
        requests: Sequence[PartRequest | str],
        without: Sequence[str] = (),
        joined: Sequence[PartRequest] = (),
        age: float = 0,
    ) -> Sequence[float]:
        """Return when jobs would end."""
        call = calls.EstimateCall(
            key=self._key(),
            requests=[one if isinstance(one, str) else _fields(one) for one in requests],
            without=list(without),
            joined=list(map(_fields, joined)),
            age=age,
        )
        return self._ends(self._ask(call, _PLANNING_SECONDS), len(requests))

    def estimate_in_turn(self, request: PartRequest, count: int) -> Sequence[float]:
        """Return when equal jobs would end, one behind the other."""
        call = calls.EstimateInTurnCall(key=self._key(), request=_fields(request), count=count)
        return self._ends(self._ask(call, _PLANNING_SECONDS), count)

    def evictable(self, request: PartRequest) -> Sequence[EvictableJob]:
        """Return the local jobs that may give way."""
        jobs: list[EvictableJob] = self._ask(calls.EvictableCall(key=self._key(), request=_fields(request)))
        return jobs

    def prepare(self, key: str, transaction: str, part: GridPart, ttl: float) -> PreparedPart:
        """Make or freeze a part."""
        call = calls.PrepareCall(key=key, transaction=transaction, part=_part_fields(part), ttl=ttl)
        prepared: PreparedPart = self._ask(call, _PLANNING_SECONDS)
        return prepared

    def prepare_all(
        self, key: str, parts: Sequence[tuple[str, GridPart]], ttl: float
    ) -> Sequence[PreparedPart | CallRefused]:
        """Make queued parts, as many by a line as it may have."""
        found: list[PreparedPart | CallRefused] = []
        asked = [calls.PartOfTransaction(transaction, _part_fields(part)) for transaction, part in parts]
        for place, some in enumerate(_lines_of(asked)):
            call = calls.PrepareAllCall(key=f"{key}:{place}", parts=some, ttl=ttl)
            answers: list[calls.PartAnswer] = self._ask(call, _PLANNING_SECONDS)
            self._complete(answers, len(some))
            found += map(self._prepared_or_refused, answers)
        return found

    def commit(self, key: str, transaction: str, begin: float | None = None, hosts: Sequence[str] = ()) -> None:
        """Carry out what was prepared."""
        self._ask(calls.CommitCall(key=key, transaction=transaction, begin=begin, hosts=list(hosts)))

    def abort(self, key: str, transaction: str) -> None:
        """Undo what was prepared."""
        self._ask(calls.AbortCall(key=key, transaction=transaction))

    def cancel(self, key: str, part: str, reason: str = "") -> bool:
        """End a part."""
        known: bool | None = self._ask(calls.CancelCall(key=key, part=part, reason=reason))
        return known is not False

    def evict(self, key: str, transaction: str, request: PartRequest, procs: int) -> Sequence[str]:
        """End local jobs for a transaction."""
        call = calls.EvictCall(key=key, transaction=transaction, request=_fields(request), procs=procs)
        jobs: list[str] = self._ask(call)
        return jobs

    def events(self, after: int) -> Sequence[PartEvent]:
        """Return what happened to parts."""
        events: list[PartEvent] = self._ask(calls.EventsCall(key=self._key(), after=after))
        return events

    def close(self) -> None:
        """End the connection."""
        self._channel.close()

    def _key(self) -> str:
        """Return a key for a call that changes nothing: it ties the answer to it."""
        return f"{os.getpid()}-{next(self._reads)}"

    def _ask(self, call: DoorCall, seconds: float = _SECONDS) -> Any:
        line = encode(call)
        try:
            # what the cluster would not take is refused here, and does not end the connection
            calls.read_call(line)
        except UsageError as error:
            raise CallRefused(error.message, hint=error.hint) from None
        answer = self._channel.ask(line, self._seconds or seconds)
        try:
            reply = read_reply(answer)
            if reply.key != call.key:
                raise ValueError(f"it answers '{reply.key[:40]}'")
            if isinstance(reply.error, DoorError):
                raise self._refusal(reply.error)
            if reply.answer is msgspec.UNSET:
                raise ValueError("an answer without an answer")
            return msgspec.json.decode(reply.answer, type=call.answers)
        except ValueError as error:
            raise self._channel.break_off(f"what it says is no answer: {str(error)[:200]}") from None

    def _complete(self, answers: Sequence[object], wanted: int) -> None:
        if len(answers) != wanted:
            raise self._channel.break_off(f"{len(answers)} answers to {wanted} questions")

    def _ends(self, answers: Sequence[float | None], wanted: int) -> list[float]:
        self._complete(answers, wanted)
        return [math.inf if end is None else end for end in answers]

    def _prepared_or_refused(self, answer: calls.PartAnswer) -> PreparedPart | CallRefused:
        if answer.prepared is not None:
            return answer.prepared
        refusal = self._refusal(answer.refused or DoorError("", "neither prepared nor refused"))
        if isinstance(refusal, ClusterSilent):
            raise refusal
        return refusal

    def _refusal(self, error: DoorError) -> CallRefused | ClusterSilent:
        """Return what a call raises: a cluster whose database is away may have done it or not."""
        if error.status == Unreachable.exit_status:
            return ClusterSilent(f"cluster '{self._name}': {error.message}", hint=error.hint)
        refused = CallRefused(f"cluster '{self._name}': {error.message}", hint=error.hint)
        refused.code, refused.exit_status = error.code, error.status
        return refused


def _fields(request: PartRequest) -> RequestFields:
    return RequestFields(
        user=request.user,
        resources=request.resources,
        procs=request.procs,
        walltime=request.walltime,
        queue=request.queue,
        properties=request.properties,
        project=request.project,
        types=list(request.types),
    )


def _part_fields(part: GridPart) -> PartFields:
    return PartFields(
        name=part.name,
        kind=part.kind,
        request=_fields(part.request),
        program=part.program,
        directory=part.directory,
        job_name=part.job_name,
        begin=part.begin,
        environment=dict(part.environment),
    )


def _lines_of(parts: Sequence[calls.PartOfTransaction]) -> Iterator[list[calls.PartOfTransaction]]:
    """Yield the parts of each line, in their order: the same ones whenever it is asked again."""
    line: list[calls.PartOfTransaction] = []
    length = 0
    for part in parts:
        more = len(encode(part))
        if line and (length + more > _LINE or len(line) == calls.MOST_PARTS):
            yield line
            line, length = [], 0
        line.append(part)
        length += more
    if line:
        yield line
