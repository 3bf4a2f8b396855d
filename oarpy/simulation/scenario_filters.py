"""Which resources the filters of a scenario's jobs admit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from oarpy.admission.filters import Filter, compile_filter
from oarpy.model.errors import UsageError
from oarpy.scheduler.bits import bits_at
from oarpy.scheduler.platform import RESOURCE_ID, Platform
from oarpy.scheduler.snapshot import WaitingJob, conditions


def check_filters(jobs: Iterable[WaitingJob]) -> None:
    """Raise :class:`UsageError` for a filter that is not one, whatever properties there are.

    Each text is read alone, so that none can change the meaning of the one it is joined with.
    """
    checked: set[str] = {""}
    for job in jobs:
        for key, text in _texts(job):
            if text not in checked:
                try:
                    compile_filter(text)
                except UsageError as error:
                    raise UsageError(f"job {job.id}: {key}: {error.message}", hint=error.hint) from None
                checked.add(text)


def admitted(platform: Platform, jobs: Sequence[WaitingJob]) -> tuple[dict[str, int], dict[str, str]]:
    """Return the resources that each condition of ``jobs`` admits, and what is wrong with those that none can meet.

    Resources of another type than ``default`` are admitted by conditions that name ``type``.
    """
    check_filters(jobs)
    rows = _rows(platform)
    columns = {RESOURCE_ID, "type", "state", *(name for row in rows for name in row)}
    filters: dict[str, int] = {}
    errors: dict[str, str] = {}
    for text in conditions(jobs):
        try:
            wanted = compile_filter(text, columns)
            filters[text] = _matching(wanted, rows) & (
                platform.everything if "type" in wanted.columns else platform.default_type
            )
        except UsageError as error:
            errors[text] = str(error)
    return filters, errors


def _matching(wanted: Filter, rows: Sequence[Mapping[str, object]]) -> int:
    return bits_at([place for place, row in enumerate(rows) if wanted.matches(row)])


def _rows(platform: Platform) -> list[dict[str, object]]:
    return [{**row.properties, RESOURCE_ID: row.id, "type": row.type, "state": row.state} for row in platform.resources]


def _texts(job: WaitingJob) -> list[tuple[str, str]]:
    texts = [("key 'properties'", job.filter)]
    for rank, alternative in enumerate(job.alternatives):
        texts += [(f"request {rank + 1}: key 'resources'", group.filter) for group in alternative.groups]
    return texts
