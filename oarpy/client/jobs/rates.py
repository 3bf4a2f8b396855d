"""``oarrates``: the rates of a user's programs, listed, forgotten, and told by the jobs that measure them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from oarpy.client.rendering import Column, Report, Table, TwoForms, local_date
from oarpy.client.session import Session
from oarpy.model.durations import format_duration
from oarpy.model.errors import NotFound, UsageError
from oarpy.model.node_types import ONE_TYPE
from oarpy.store.jobs import bag_profiles, rates
from oarpy.store.jobs.rates import Measurement, StoredRate

_HIGHEST = float(1 << 53)
_LONGEST_REASON = 300
_DIGITS = 19
"""Digits that the number of a job may have."""


class RateDocument(TypedDict):
    """A rate; times in epoch seconds."""

    user: str
    program: str
    program_date: int
    arguments: str
    size: str
    node_type: str
    rate: float
    measured: float


def listed(session: Session, user: str | None, *, everybody: bool) -> Report[list[RateDocument]]:
    """Return the rates of the caller, or those that an admin asks for. Raises :class:`NotAllowed`."""
    stored = rates.rates(session.connection, _whose(session, user, everybody=everybody))
    return TwoForms(lambda: _text(stored), lambda: [_document(rate) for rate in stored])


def _text(stored: Sequence[StoredRate]) -> str:
    if not stored:
        return "no rates: oarsub --processes measures them\n"
    titles = ("User", "Program", "Of", "Arguments", "Node type", "Size", "Iterations/s", "Measured")
    rows = [
        (
            rate.user,
            rate.program,
            local_date(rate.program_date),
            rate.arguments,
            rate.node_type,
            rate.size,
            f"{rate.rate:.4g}",
            local_date(rate.measured),
        )
        for rate in stored
    ]
    return Table(tuple(map(Column, titles)), tuple(rows)).text()


def _document(rate: StoredRate) -> RateDocument:
    return {
        "user": rate.user,
        "program": rate.program,
        "program_date": rate.program_date,
        "arguments": rate.arguments,
        "size": rate.size,
        "node_type": rate.node_type,
        "rate": rate.rate,
        "measured": rate.measured,
    }


def forget(session: Session, program: str | None, user: str | None, *, everybody: bool) -> int:
    """Forget rates of a program, or of all; return how many. Raises :class:`NotFound` if there are none."""
    whose = _whose(session, user, everybody=everybody)
    with session.connection.transaction():
        count = rates.forget(session.connection, whose, program)
    if not count:
        what = "there are no rates" if program is None else f"there are no rates of '{program[:200]}'"
        raise NotFound(f"{what} that no waiting or running job needs", hint="oarrates lists those that there are")
    return count


def _whose(session: Session, user: str | None, *, everybody: bool) -> str | None:
    """Return the user whose rates are meant; None means all users."""
    if everybody or (user is not None and user != session.user):
        session.require_admin("see and forget the rates of others")
    return None if everybody else user or session.user


@dataclass(frozen=True, slots=True)
class Told:
    """What a job that measures tells, as typed: ``rates`` by size, the ``seconds`` of a task, or its ``failure``."""

    rates: str | None
    seconds: str | None
    failure: str | None

    @property
    def reason(self) -> str | None:
        """The failure as it is stored."""
        return None if self.failure is None else self.failure[:_LONGEST_REASON].replace("\0", " ")


def tell(session: Session, job: str, told: Told) -> None:
    """Keep what a job of the caller has measured, or why it has measured nothing."""
    number = int(job) if job.isascii() and job.isdigit() and len(job) < _DIGITS else 0
    with session.connection.transaction():
        if bag_profiles.is_taken(session.connection, number, session.user):
            _tell_profile(session, number, told)
            return
        known = rates.measurer(session.connection, number, session.user)
        if known is None or not known.live:
            raise NotFound(f"job '{job[:40]}' of yours measures no rates", hint="oarsub --processes measures them")
        if told.reason is not None:
            rates.fail(session.connection, number, told.reason)
            return
        measured_rates = dict(_rate(text) for text in (told.rates or "").split(","))
        if measured_rates.keys() != set(known.sizes):
            raise UsageError(
                f"rates of {', '.join(measured_rates)[:200]}", hint=f"the sizes are {', '.join(known.sizes)}"
            )
        rates.tell(session.connection, number, measured_rates)


def _tell_profile(session: Session, job: int, told: Told) -> None:
    """Keep the seconds of a task of a bag, or why they are not known."""
    if told.reason is not None:
        bag_profiles.fail(session.connection, job, told.reason)
        return
    seconds = _number(told.seconds or "")
    if seconds is None:
        raise UsageError(f"'{(told.seconds or '')[:80]}' are no seconds", hint="a number above 0")
    bag_profiles.tell(session.connection, job, seconds)


def sentences(session: Session, job: int) -> tuple[str, ...]:
    """Say where the processes of a job are mapped, and which types of nodes are not used as they have no rate."""
    connection, node_type = session.connection, session.configuration.scheduler.node_type
    row = rates.mapped_jobs(connection, [job]).get(job)
    if row is None:
        return ()
    lines = []
    if row.node_types is not None and row.seconds is not None and row.walltime is not None:
        cores = ", ".join(f"{count} of type {kind}" for kind, count in row.node_types.items())
        walltime = format_duration(row.walltime)
        lines.append(
            f"Its processes are mapped to cores: {cores}. Predicted: {row.seconds:.0f} s; walltime: {walltime}."
        )
    measured = {measurement.node_type: measurement for measurement in rates.measurements(connection, row.key)}
    kinds = rates.node_types(connection, node_type) if node_type else [ONE_TYPE]
    unrated = (kind for kind in kinds if row.live and not {f"{kind} {size}" for size in row.sizes} <= set(row.rated))
    return (*lines, *(f"Nodes of type {kind} are not used: {_why_unrated(measured.get(kind))}." for kind in unrated))


def _why_unrated(measured: Measurement | None) -> str:
    if measured is None:
        return "there is no rate of its program on them"
    if measured.live:
        return f"job {measured.job} measures their rate"
    return f"they have no rate, as job {measured.job} tells: {measured.failure or 'it ended before it had one'}"


def _rate(text: str) -> tuple[str, float]:
    size, _, number = text.partition("=")
    rate = _number(number)
    if rate is None:
        raise UsageError(f"'{text[:80]}' is no rate", hint="SIZE=NUMBER, a number above 0")
    return size, rate


def _number(text: str) -> float | None:
    """Return a number above 0, None if the text is none."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    return number if 0 < number <= _HIGHEST else None
