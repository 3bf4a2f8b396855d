"""Jobs as users name them on the command line: ids, ``--array ID``, ``--sql CONDITION``."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from oarpy.model.errors import NotFound, UsageError
from oarpy.model.states import JobState
from oarpy.store.jobs.scope import FILTER_COLUMNS, Condition, JobScope

_LARGEST = 2**63 - 1
_LONGEST_USER = 256


@dataclass(frozen=True, slots=True)
class JobSelection:
    """What the user wrote: job ids and array ids as text, a condition on job columns (``""`` = none)."""

    job_ids: tuple[int, ...] = ()
    array_ids: tuple[int, ...] = ()
    condition: Condition | None = None

    def scope(self, *, live: bool) -> JobScope:
        """Return the same as the store reads it."""
        return JobScope(self.job_ids, self.array_ids, condition=self.condition, live=live)


def parse_ids(words: Sequence[str], what: str = "job") -> tuple[int, ...]:
    """Return the ids in ``words`` without repeats; ``what`` names them in the :class:`UsageError` of a wrong one."""
    return tuple(dict.fromkeys(_parse_id(word, what) for word in words))


def _parse_id(word: str, what: str) -> int:
    if not (word.isascii() and word.isdigit()) or len(word) > 19 or not 0 < int(word) <= _LARGEST:
        raise UsageError(f"'{word[:60]}' is not a {what} id", hint="a whole number above 0")
    return int(word)


def parse_user(text: str) -> str:
    """Return ``text`` if it can be the name of a user; raise :class:`UsageError`."""
    if not text.isprintable() or len(text) > _LONGEST_USER:
        raise UsageError(f"'{text[:60]}' is not a user", hint="a login name")
    return text


def parse_condition(text: str) -> Condition:
    """Check a condition on job columns; raise :class:`UsageError` unless it is a plain filter with real states."""
    from oarpy.admission.filters.filters import compile_filter
    from oarpy.admission.filters.parts import compared_with

    condition = compile_filter(text, FILTER_COLUMNS)
    states = [state.value for state in JobState]
    for word in compared_with(text, "state") if "state" in condition.columns else ():
        if word not in states:
            close = difflib.get_close_matches(word, states, n=1, cutoff=0.5)
            hint = f"did you mean {close[0]}?" if close else f"states: {', '.join(states)}"
            raise UsageError(f"'{word[:40]}' is not a state of jobs", hint=hint)
    return condition.sql


def parse_selection(ids: Sequence[str], arrays: Sequence[str], condition: str | None) -> JobSelection:
    """Read the selection of a command that acts on jobs; raise :class:`UsageError` when there is none."""
    if not ids and not arrays and condition is None:
        raise UsageError("no job given", hint="give job ids, --array ID or --sql CONDITION")
    if condition is not None and (ids or arrays):
        raise UsageError("--sql and ids exclude each other", hint="write job_id IN (...) in the condition")
    return JobSelection(
        parse_ids(ids), parse_ids(arrays, "array"), None if condition is None else parse_condition(condition)
    )


def require_known(selection: JobSelection, job_ids: Collection[int], array_ids: Collection[int]) -> None:
    """Raise :class:`NotFound` naming every id of ``selection`` that is not among those found."""
    for what, wanted, found in (("job", selection.job_ids, job_ids), ("array", selection.array_ids, array_ids)):
        missing = [str(one) for one in wanted if one not in found]
        if missing:
            plural = "s" if len(missing) > 1 else ""
            verb = "do not exist" if plural else "does not exist"
            raise NotFound(f"{what}{plural} {', '.join(missing)} {verb}", hint="oarstat lists the jobs")
