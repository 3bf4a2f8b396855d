"""Jobs as users name them on the command line: ids and selectors, ids of arrays with ``--array``, ``--sql``.

=================  =======================================================================
``12``             the job
``12-20``          the jobs from 12 to 20 that there are
``last``           the caller's last submission, an array whole
``@name``          jobs of that name; where none is live, ``oarstat`` means the last
``state:S[,S]``    jobs in one of these states
``user:U[,U]``     jobs of one of these users
=================  =======================================================================

Words of the first four kinds add up, and so do words of any other kind among themselves. Words of different kinds
narrow each other.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from oarpy.model.errors import NotFound, UsageError
from oarpy.model.states import FINAL_STATES, JobState
from oarpy.store.jobs import scope
from oarpy.store.jobs.scope import FILTER_COLUMNS, Condition, JobScope

if TYPE_CHECKING:
    from oarpy.client.session import Session

_LARGEST = 2**63 - 1
_LONGEST_NAME = 256
_MOST_SHOWN = 12

LAST = "last"
_SELECTOR = re.compile(r"[0-9]|@|state:|user:|last\Z|OAR_JOB_ID=")
_PRINTED = re.compile(r"\AOAR_(JOB|ARRAY)_ID=")
"""The text before an id where ``oarsub`` prints it."""
_RANGE = re.compile(r"([0-9]{1,19})-([0-9]{1,19})", re.ASCII)
_HINT = "an id, 12-20, last, @name, state:Running or user:ann,bob"


@dataclass(frozen=True, slots=True)
class JobSelection:
    """The user's selection: job ids and array ids, selectors, a condition on job columns (None = none).

    ``since`` leaves out jobs that ended before it. The condition sees only the commands of ``reader``'s jobs, None: of
    all jobs; :meth:`resolved` sets the reader.
    """

    job_ids: tuple[int, ...] = ()
    array_ids: tuple[int, ...] = ()
    condition: Condition | None = None
    ranges: tuple[tuple[int, int], ...] = ()
    names: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    last: bool = False
    since: datetime | None = None
    reader: str | None = ""

    @property
    def searches(self) -> bool:
        """True if the jobs are found by a search, rather than named one by one."""
        return bool(self.condition or self.ranges or self.names or self.states or self.users)

    @property
    def names_jobs(self) -> bool:
        """True if some jobs are named one by one, or as an array."""
        return bool(self.job_ids or self.array_ids or self.last)

    @property
    def wants_ended(self) -> bool:
        """True if jobs that have ended are meant too."""
        named = self.job_ids or self.array_ids or self.ranges or self.last or self.condition or self.since
        return bool(named) or not FINAL_STATES.isdisjoint(self.states)

    def resolved(self, session: Session, *, ended: bool = False) -> JobSelection:
        """Return the same as the caller means it: with the array of ``last``, and only jobs that the caller may see.

        ``ended``: a name may belong to jobs which have ended.

        Raises :class:`NotFound` for ``last`` if the caller has no job.
        """
        seen = replace(self, reader=None if session.is_admin else session.user)
        if ended and self.since is None:
            seen = seen._with_ended_names(session)
        if not self.last:
            return seen
        array = scope.last_array(session.connection, session.user)
        if array is None:
            raise NotFound(f"'{session.user}' has submitted no job yet", hint="oarstat lists the jobs")
        return replace(seen, array_ids=tuple(dict.fromkeys((*seen.array_ids, array))), last=False)

    def _with_ended_names(self, session: Session) -> JobSelection:
        """Return the same with the last array of each name that no live job has.

        Beside ids, which may be ids of ended jobs, the live jobs of a name become ids as well.
        """
        alone = not (self.names_jobs or self.ranges)
        names, ids, arrays = list[str](), list(self.job_ids), list(self.array_ids)
        for name in self.names:
            live = scope.ids(session.connection, JobScope(names=(name,), live=True))
            last = None if live else scope.last_named(session.connection, name)
            if live and not alone:
                ids += live
            elif last is not None:
                arrays.append(last)
            else:
                names.append(name)
        return replace(
            self, names=tuple(names), job_ids=tuple(dict.fromkeys(ids)), array_ids=tuple(dict.fromkeys(arrays))
        )

    def scope(self, *, live: bool) -> JobScope:
        """Return the same as the store reads it, resolved."""
        return JobScope(
            self.job_ids,
            self.array_ids,
            self.ranges,
            self.users,
            self.names,
            self.states,
            condition=self.condition,
            since=self.since,
            live=live,
            reader=self.reader,
        )


def is_selector(word: str) -> bool:
    """Tell whether ``word`` looks like a selector of jobs, well-formed or not."""
    return _SELECTOR.match(word) is not None


def parse_words(words: Iterable[str]) -> JobSelection:
    """Read ids and selectors; raise :class:`UsageError` naming the first word that is none."""
    ids, ranges = list[int](), list[tuple[int, int]]()
    names, states, users = list[str](), list[str](), list[str]()
    last = False
    for word in words:
        kind, _, value = word.partition(":")
        if word == LAST:
            last = True
        elif match := _RANGE.fullmatch(word):
            ranges.append(_bounds(word, int(match[1]), int(match[2])))
        elif word.startswith("@"):
            names.append(_name(word[1:], word))
        elif kind == "state":
            states += [_state(state) for state in value.split(",")]
        elif kind == "user":
            users += [parse_user(user) for user in value.split(",")]
        else:
            ids.append(_parse_id(word, "job", _HINT))
    return JobSelection(
        tuple(dict.fromkeys(ids)),
        ranges=tuple(ranges),
        names=tuple(names),
        states=tuple(states),
        users=tuple(users),
        last=last,
    )


def _bounds(word: str, first: int, last: int) -> tuple[int, int]:
    if not 0 < first <= last <= _LARGEST:
        raise UsageError(f"'{word[:60]}' is not a range of job ids", hint="the smaller one first, as 12-20")
    return first, last


def _name(text: str, word: str) -> str:
    if not text or not text.isprintable() or len(text) > _LONGEST_NAME:
        raise UsageError(f"'{word[:60]}' names no job", hint="@NAME, the name given with oarsub -n")
    return text


def _state(text: str) -> str:
    """Return the state that ``text`` spells, whatever its case."""
    states = [state.value for state in JobState]
    known = {state.lower(): state for state in states}
    if text.lower() not in known:
        close = difflib.get_close_matches(text, states, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]}?" if close else f"states: {', '.join(states)}"
        raise UsageError(f"'{text[:40]}' is not a state of jobs", hint=hint)
    return known[text.lower()]


def parse_ids(words: Sequence[str], what: str = "job") -> tuple[int, ...]:
    """Return the ids in ``words`` without repeats; ``what`` names them in the :class:`UsageError` of a wrong one."""
    return tuple(dict.fromkeys(_parse_id(word, what) for word in words))


def _parse_id(word: str, what: str, hint: str = "a whole number above 0") -> int:
    word = _PRINTED.sub("", word)
    if not (word.isascii() and word.isdigit()) or len(word) > 19 or not 0 < int(word) <= _LARGEST:
        raise UsageError(f"'{word[:60]}' is not a {what} id", hint=hint)
    return int(word)


def parse_user(text: str) -> str:
    """Return ``text`` if it can be the name of a user; raise :class:`UsageError`."""
    if not text.isprintable() or len(text) > _LONGEST_NAME:
        raise UsageError(f"'{text[:60]}' is not a user", hint="a login name")
    return text


def parse_condition(text: str) -> Condition:
    """Check a condition on job columns; raise :class:`UsageError` unless it is a plain filter with real states."""
    from oarpy.admission.filters.filters import compile_filter
    from oarpy.admission.filters.parts import compared_with

    condition = compile_filter(text, FILTER_COLUMNS, datetime.now().astimezone())
    for word in compared_with(text, "state") if "state" in condition.columns else ():
        if word != _state(word):
            raise UsageError(f"'{word[:40]}' is not a state of jobs", hint=f"did you mean {_state(word)}?")
    return condition.sql


def parse_selection(words: Sequence[str], condition: str | None, *, arrays: bool) -> JobSelection:
    """Read the selection of a command that acts on jobs; with ``arrays`` the ids are ids of arrays.

    Raises :class:`UsageError` when nothing is selected.
    """
    if condition is not None and (words or arrays):
        raise UsageError("--sql and ids exclude each other", hint="write job_id IN (...) in the condition")
    if condition is not None:
        return JobSelection(condition=parse_condition(condition))
    if not words:
        named = "no array given" if arrays else "no job given"
        raise UsageError(named, hint=f"give {_HINT}, --array and ids of arrays, or --sql CONDITION")
    if not arrays:
        return parse_words(words)
    numbers = [word for word in words if word.isdigit()]
    others = parse_words([word for word in words if not word.isdigit()])
    return replace(others, array_ids=parse_ids(numbers, "array"))


def parse_one(word: str) -> JobSelection:
    """Read the word for one job; raise :class:`UsageError`."""
    return parse_words([word])


def one_job(session: Session, selection: JobSelection) -> int:
    """Return the one job that is meant, live if it is searched for; raise :class:`UsageError` when there are several.

    An id is returned as it is, known or not.
    """
    if len(selection.job_ids) == 1 and not selection.searches:
        return selection.job_ids[0]
    chosen = selection.resolved(session, ended=True)
    reach = chosen.scope(live=not chosen.wants_ended)
    with scope.reached(session.connection, reach):
        ids = scope.ids(session.connection, reach)
        failure = missing(session, chosen, live=not chosen.wants_ended)
    if not ids:
        raise failure or NotFound("no job is meant", hint="oarstat lists the jobs")
    if len(ids) > 1:
        raise UsageError(f"{len(ids)} jobs are meant: {ids_in_brief(ids)}", hint="name one of them")
    return ids[0]


def one_array(session: Session, selection: JobSelection) -> int:
    """Return the one array that is meant, ended or not; ids are ids of arrays.

    Raises :class:`NotFound` when there is none, :class:`UsageError` when there are several.
    """
    chosen = replace(selection.resolved(session), job_ids=())
    chosen = replace(chosen, array_ids=(*chosen.array_ids, *selection.job_ids))
    reach = chosen.scope(live=False)
    with scope.reached(session.connection, reach):
        arrays = scope.arrays(session.connection, reach)
        failure = missing(session, chosen, live=False)
    if failure is not None:
        raise failure
    if not arrays:
        raise NotFound("no array is meant", hint="oarstat lists the jobs")
    if len(arrays) > 1:
        raise UsageError(f"{len(arrays)} arrays are meant: {ids_in_brief(arrays)}", hint="name one of them")
    return arrays[0]


def ids_in_brief(ids: Collection[int]) -> str:
    """Return ids, in order, with ranges for ids that follow each other.

    >>> ids_in_brief([3, 4, 5, 9])
    '3-5, 9'
    """
    ordered = sorted(ids)
    begins = [current for before, current in pairwise([None, *ordered]) if before is None or current != before + 1]
    ends = [
        current
        for current, after in pairwise([*ordered, None])
        if after is None or current is None or after != current + 1
    ]
    shown = [f"{first}-{last}" if first != last else f"{first}" for first, last in zip(begins, ends, strict=True)]
    return ", ".join(shown[:_MOST_SHOWN]) + (", ..." if len(shown) > _MOST_SHOWN else "")


def meant_text(action: str, job_ids: Collection[int]) -> str:
    """Return the message of a dry run: nothing was done to these jobs."""
    return (
        f"{action}: {ids_in_brief(job_ids)} ({len(job_ids)} job{'' if len(job_ids) == 1 else 's'}; nothing was done)\n"
    )


def missing(session: Session, selection: JobSelection, *, live: bool) -> NotFound | None:
    """Return the error about ids, ranges and names without a job; ``live``: names of live jobs count.

    A job that another condition excludes exists all the same. Call it inside of ``scope.reached``.
    """
    connection = session.connection
    complaints = []
    if selection.job_ids or selection.array_ids:
        try:
            require_known(selection, *scope.known(connection, selection.job_ids, selection.array_ids))
        except NotFound as failure:
            complaints.append(failure.message)
    complaints += [
        f"no job has an id from {first} to {last}"
        for first, last in selection.ranges
        if not scope.is_met(connection, JobScope(ranges=((first, last),), live=False))
    ]
    complaints += [
        f"no {'live ' if live else ''}job is named '{name[:60]}'"
        for name in selection.names
        if not scope.is_met(connection, JobScope(names=(name,), live=live))
    ]
    return NotFound("; ".join(complaints), hint="oarstat lists the jobs") if complaints else None


def require_known(selection: JobSelection, job_ids: Collection[int], array_ids: Collection[int]) -> None:
    """Raise :class:`NotFound` naming every id of ``selection`` that was not found."""
    for what, wanted, known in (("job", selection.job_ids, job_ids), ("array", selection.array_ids, array_ids)):
        missing = [str(number) for number in wanted if number not in known]
        if missing:
            plural = "s" if len(missing) > 1 else ""
            verb = "do not exist" if plural else "does not exist"
            raise NotFound(f"{what}{plural} {', '.join(missing)} {verb}", hint="oarstat lists the jobs")
