"""The expected end of a job on each cluster, by the clusters' own estimates. Nothing is changed there."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from math import isfinite

from oarpy.grid.calls.parts import PartRequest
from oarpy.grid.calls.table import Cluster, ClusterSilent, Estimate, Idle
from oarpy.model.errors import OarpyError


@dataclass(frozen=True, slots=True)
class ExpectedEnd:
    """The answer of a cluster. ``end`` is the ECT in epoch seconds by the clock here, None: never.

    ``idle`` processors could be claimed now. ``error`` says why a cluster refused, or, if it was ``silent``, gave no
    answer; the other fields are None then.
    """

    cluster: str
    end: float | None = None
    idle: int | None = None
    error: str = ""
    silent: bool = False


@dataclass(frozen=True, slots=True)
class EndQuestion:
    """A question to ``cluster``: about a request, or about the ``part`` of it that waits there already.

    ``ahead`` is by how many seconds its clock is ahead.
    """

    cluster: Cluster
    request: PartRequest
    part: str = ""
    ahead: float = 0


def expected_ends(questions: Sequence[EndQuestion], patience: float = 10) -> list[ExpectedEnd]:
    """Ask all clusters at once and return their answers, in the order of the questions.

    A cluster without an answer within ``patience`` seconds is silent.
    """
    if not questions:
        return []
    pool = ThreadPoolExecutor(len(questions), thread_name_prefix="expected end")
    try:
        answers = [pool.submit(_ask, question) for question in questions]
        wait(answers, patience)
        return [_answer(question, answer, patience) for question, answer in zip(questions, answers, strict=True)]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def best(ends: Sequence[ExpectedEnd]) -> ExpectedEnd | None:
    """Return where a job would end first, the first of equals; None if it can run nowhere."""
    return min((end for end in ends if end.end is not None), key=lambda end: end.end or 0, default=None)


def _ask(question: EndQuestion) -> ExpectedEnd:
    (end,) = question.cluster.ask(Estimate([question.part or question.request]))
    return ExpectedEnd(
        question.cluster.name,
        end - question.ahead if isfinite(end) else None,
        question.cluster.ask(Idle(question.request)),
    )


def _answer(question: EndQuestion, answer: Future[ExpectedEnd], patience: float) -> ExpectedEnd:
    """Return the answer of a cluster, or the error in its place."""
    if not answer.done():
        return ExpectedEnd(question.cluster.name, error=f"no answer within {patience:g} s", silent=True)
    error = answer.exception()
    if isinstance(error, OarpyError):
        return ExpectedEnd(question.cluster.name, error=str(error), silent=isinstance(error, ClusterSilent))
    return answer.result()
