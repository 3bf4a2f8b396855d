"""Jobs as their rows have them: what the scheduler sees of a job by itself, and what reading the rest of it takes."""

from __future__ import annotations

from oarpy.scheduler.snapshot import AskedJob, HeldJob


class StoredJob(AskedJob, frozen=True, kw_only=True):
    """A job in Waiting or Hold, as its row stood at ``version``. Instants are epoch seconds."""

    version: int
    submission: int
    reservation_state: str | None


class StoredHolder(HeldJob, frozen=True, kw_only=True):
    """A job that holds resources from ``start`` (epoch seconds) for ``walltime`` seconds, suspended ones not counted.

    ``suspended`` are the resources that it has given back while it is suspended. ``dies_at`` is the date of one that
    writes a checkpoint now. ``evicted``: it is being killed for a part of a broker.
    """

    suspended: tuple[int, ...] = ()
    dies_at: float | None = None
    evicted: bool = False
