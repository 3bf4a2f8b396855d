"""The cluster of a mapped job at its submission: by the earliest end, by chance, or by turns."""

from __future__ import annotations

from math import floor

from oarpy.grid.core.broker_state import BrokerState, MappedJob
from oarpy.grid.core.exchanges import Action, AskEcts, EctsTold, JobArrived, JoinQueue, System


def map_job(state: BrokerState, arrived: JobArrived, now: float) -> list[Action]:
    """Give a job its cluster, or ask for the numbers on which that depends."""
    job = arrived.job
    if state.reallocation.mapping == "mct":
        return [AskEcts((job.id,), state.names, "mapping")]
    fitting = [place for place, cluster in enumerate(state.clusters) if cluster.procs >= job.procs]
    fitting = fitting or [*range(len(state.clusters))]  # clusters say themselves which jobs they can run
    if state.reallocation.mapping == "random":
        place = fitting[floor(len(fitting) * state.chance.random())]
    else:
        place = next((candidate for candidate in fitting if candidate >= state.turn), fitting[0])
        state.turn = place + 1
    return [JoinQueue(job.id, state.clusters[place].name)]


def map_by_ects(state: BrokerState, answer: EctsTold, now: float) -> list[Action]:
    """Let the job of the question join the queue where it ends first; ties go by the configured order."""
    (job,), ects = answer.jobs, [cluster[0] for cluster in answer.ects]
    return [JoinQueue(job, state.names[ects.index(min(ects))])]


SYSTEM = System(
    "mapping",
    {(JobArrived, MappedJob): map_job, (EctsTold, "mapping"): map_by_ects},
    (AskEcts, JoinQueue),
)
