"""Profiles of bags over clusters: each cluster measures how long a task takes, before it makes offers.

Where a profile is not told in time, or tells nothing, tasks count with their walltime.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oarpy.grid.broker.coallocated.bag_offers import objection, task_request
from oarpy.grid.broker.conversations import CallBatch, ClusterCall, Conversation
from oarpy.grid.calls.parts import ProfiledType
from oarpy.grid.calls.table import Profiled, TakeProfile
from oarpy.store.grid.broker_jobs import GridComponentRow, GridJobRow
from oarpy.store.grid.clusters import GridClusterRow

_PATIENCE = 20.0
"""Seconds that a cluster has for its answer."""
_LONGEST_REASON = 300
_UNABLE = "it takes no profiles"


@dataclass(frozen=True, slots=True)
class ProfilesFound:
    """The seconds of a task by cluster and type of nodes; ``missing`` says where and why they are not known.

    ``measuring`` names the clusters whose jobs measure them.
    """

    seconds: Mapping[str, Mapping[str, float]]
    missing: Sequence[str]
    measuring: Sequence[str]


def take_profiles(
    rows: Sequence[GridClusterRow],
    job: GridJobRow,
    component: GridComponentRow,
    script: str,
    limit: float,
    tolerance: float,
) -> Conversation[object]:
    """Have clusters take the profile of a bag, as far as they have not, and ask for it.

    Clusters that get no tasks are left out. Jobs have ``limit`` seconds to begin; clocks may be off by ``tolerance``.
    """
    open_rows = [row for row in rows if not objection(row, job.user, tolerance)]
    missing = [_missing(row.name, _UNABLE) for row in open_rows if "profile" not in row.abilities]
    able = [row for row in open_rows if "profile" in row.abilities]
    name = f"profile:{job.id}:{job.submitted:.3f}"
    calls = [
        TakeProfile(name, task_request(job, component, row), script, limit, job.directory, key=name) for row in able
    ]
    taken = yield CallBatch([ClusterCall(row.name, call) for row, call in zip(able, calls, strict=True)], _PATIENCE)
    missing += [_missing(row.name, str(answer)) for row, answer in zip(able, taken, strict=True) if answer is not None]
    names = [row.name for row, answer in zip(able, taken, strict=True) if answer is None]
    answers = yield CallBatch([ClusterCall(cluster, Profiled(name)) for cluster in names], _PATIENCE)
    seconds: dict[str, dict[str, float]] = {}
    measuring = []
    for cluster, answer in zip(names, answers, strict=True):
        if not isinstance(answer, Sequence):
            missing.append(_missing(cluster, str(answer)))
            continue
        kinds = [kind for kind in answer if isinstance(kind, ProfiledType)]
        seconds[cluster] = {kind.name: kind.seconds for kind in kinds if kind.seconds is not None}
        missing += [_missing(f"nodes of type {kind.name} of {cluster}", kind.reason) for kind in kinds if kind.reason]
        measuring += [cluster] if any(kind.measuring for kind in kinds) else []
    return ProfilesFound(seconds, missing, measuring)


def _missing(where: str, reason: str) -> str:
    """Say why tasks count with their walltime somewhere."""
    return f"tasks count with their walltime on {where}: {reason[:_LONGEST_REASON]}"
