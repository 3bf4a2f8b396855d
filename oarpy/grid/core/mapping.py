"""The cluster of a mapped job at its submission: the one where it ends first, one by chance, or one by turns."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor

from oarpy.grid.core.broker_state import BrokerState, JobId, MappedJob
from oarpy.grid.core.exchanges import Action, AskEcts, JoinQueue


def map_job(state: BrokerState, job: MappedJob) -> list[Action]:
    """Give a job its cluster, or ask for what that depends on."""
    if state.reallocation.mapping == "mct":
        state.mapping.add(job.id)
        return [AskEcts((job.id,), state.names)]
    fitting = [place for place, cluster in enumerate(state.clusters) if cluster.procs >= job.procs]
    fitting = fitting or [*range(len(state.clusters))]  # they say themselves what they can run
    if state.reallocation.mapping == "random":
        place = fitting[floor(len(fitting) * state.chance.random())]
    else:
        place = next((one for one in fitting if one >= state.turn), fitting[0])
        state.turn = place + 1
    return [JoinQueue(job.id, state.clusters[place].name)]


def map_by_ects(state: BrokerState, job: JobId, ects: Sequence[float]) -> list[Action]:
    """Let a job join the queue where it ends first; ties go by the configured order."""
    state.mapping.discard(job)
    return [JoinQueue(job, state.names[ects.index(min(ects))])]
