"""The rows of jobs as the scheduler reads them, with the ids needed to read the rest."""

from __future__ import annotations

from oarpy.scheduler.snapshot import AskedJob, HeldJob


class StoredJob(AskedJob, frozen=True, kw_only=True):
    """A job in Waiting or Hold, as its row stood at ``version``. Instants are epoch seconds."""

    version: int
    submission: int
    reservation_state: str | None


class StoredHolder(HeldJob, frozen=True, kw_only=True):
    """A job that holds resources from ``start`` (epoch seconds) for ``walltime`` seconds, without suspended ones.

    ``suspended`` are the resources that it has given back while it is suspended. ``leaves_at`` is the date at which a
    job ends or is suspended that writes a checkpoint now, or was given a grace. ``evicted`` is true if the job is being
    killed for a part of a broker.
    """

    suspended: tuple[int, ...] = ()
    leaves_at: float | None = None
    evicted: bool = False
