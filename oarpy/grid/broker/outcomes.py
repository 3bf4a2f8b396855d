"""The second phase: every cluster of a transaction gets its outcome, until it has confirmed it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from oarpy.grid.broker.conversations import CallBatch, ClusterCall, Conversation
from oarpy.grid.calls.table import Abort, CallRefused, Commit, PartsUndone
from oarpy.model.errors import OarpyError

Verb = Literal["commit", "abort"]

_RETRY = 1.0
"""Seconds after which the outcome is sent again to a silent cluster."""


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """How a transaction ended, for one cluster: parts begin at ``begin``; ``hosts`` has the hosts of all components."""

    transaction: str
    cluster: str
    verb: Verb
    begin: float | None = None
    hosts: Sequence[str] = ()


class Undone(str):
    """Why a cluster refuses a commit that undid what it had prepared: nothing of that began."""

    __slots__ = ()


Doubt = Callable[[str, int], None]
"""Gets the reason why a cluster does not answer, and the number of calls since its last answer."""


def tell(end: TransactionEnd, doubt: Doubt | None = None) -> Conversation[str]:
    """Send the outcome to a cluster until it answers; return why it refuses, or nothing.

    ``doubt`` is called after 1, 2, 4, 8 ... calls without an answer.

    A cluster refuses an abort when it had a commit before, and a commit when it has dropped the held parts. After a
    refused commit it gets an abort: parts that it still holds are free then, and if it has committed after all, it says
    so.
    """
    refusal = yield from _answer(end, end.verb, doubt)
    if end.verb == "commit" and refusal:
        committed = yield from _answer(end, "abort", doubt)
        return "" if committed else refusal
    return refusal


def _answer(end: TransactionEnd, verb: Verb, doubt: Doubt | None) -> Conversation[str]:
    """Ask until there is an answer; return why the cluster refuses, or nothing."""
    key = f"{end.transaction}:{verb}"
    commits = verb == "commit"
    call = Commit(end.transaction, end.begin, end.hosts, key=key) if commits else Abort(end.transaction, key=key)
    pause, times, reported = 0.0, 0, 0
    while True:
        (answer,) = yield CallBatch([ClusterCall(end.cluster, call)], pause=pause)
        if isinstance(answer, CallRefused):
            text = str(answer) or "refused"
            return Undone(text) if answer.code == PartsUndone.code else text
        if not isinstance(answer, OarpyError):
            return ""
        times += 1
        if doubt is not None and times & (times - 1) == 0:
            doubt(str(answer), times - reported)
            reported = times
        pause = _RETRY
