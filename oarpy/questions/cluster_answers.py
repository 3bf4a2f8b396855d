"""Questions to one cluster: windows, bags, processes, run times."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from random import Random
from typing import Any, get_args

from msgspec import UNSET, UnsetType

from oarpy.model.plugins import MAPPINGS, RESERVATION_ORDERS
from oarpy.model.typed_values import check_named, refuse, shown
from oarpy.processes.mapping import MAPPERS, Program
from oarpy.processes.models import mapped
from oarpy.processes.rates import steady_rate
from oarpy.profiles.profile import Profile
from oarpy.questions.fields import (
    MOST,
    AdmitFile,
    AdvanceFile,
    MapFile,
    NewEntry,
    OffersFile,
    PredictFramesFile,
    PredictRateFile,
    PredictRunFile,
)
from oarpy.questions.possible_states import HeldMachine, Ids, check_length, check_span
from oarpy.scheduler.bags.advancing import PlannedTasks, advance
from oarpy.scheduler.bags.offers import DeadlineJob, DeadlinePlans, offers_beside
from oarpy.scheduler.bags.tasks import TaskGroup, Tasks
from oarpy.scheduler.predictors.frame_profiles import predicted_frames
from oarpy.scheduler.predictors.run_times import JobToPredict, PastRun, predicted_run, predictor_named
from oarpy.scheduler.windows.admission import Terms, admit
from oarpy.scheduler.windows.window_jobs import Criterion, WindowJob, in_order

Answer = dict[str, Any]


def answer_admit(file: AdmitFile) -> Answer:
    """Tell whether a reservation is accepted, and which other starts it could have."""
    _check_admit(file)
    jobs = [_window_job(entry) for entry in (*file.waiting, file.new)]
    check_named("file", "criterion", file.criterion, get_args(Criterion), RESERVATION_ORDERS)
    queue = in_order(jobs, file.criterion, file.now, Random(file.seed).random)
    running = [(job.start, job.start + job.time, job.procs) for job in file.running if job.start + job.time > file.now]
    terms = Terms(
        limit=inf if file.limit is None else file.limit,
        accept=-inf if file.accept is None else file.accept,
        take=file.take,
        farther=file.farther,
    )
    admission = admit(
        Profile(file.procs, file.now, [(end, procs) for _, end, procs in running]),
        [(start, end) for start, end, _ in running],
        queue,
        {job.id: job.start for job in file.waiting},
        file.now,
        terms,
    )
    return {
        "accepted": admission.start is not None,
        "start": admission.start,
        "schedule": {str(job): start for job, start in admission.starts.items()},
        "offers": [{"start": offer.start, "end": offer.end, "phi": offer.phi} for offer in admission.offers],
    }


def _check_admit(file: AdmitFile) -> None:
    ids, machine = Ids(), HeldMachine(file.procs, file.now)
    machine.run_all(file.running, ids)
    for place, job in enumerate(file.waiting, 1):
        owner = ids.owner("waiting", place, job.id)
        lo, hi = _window_job(job).window(file.now)
        machine.plan(owner, job.start, job.start + job.time, job.procs)
        if not lo <= job.start <= hi:
            refuse(owner, "start", job.start, f"is not from {shown(lo)} to {shown(hi)}", "keep it in its window")
    owner = ids.owner("new", 1, file.new.id).replace("new 1", "new")
    machine.check_size(owner, file.new.procs)
    lo, hi = _window_job(file.new).window(file.now)
    if hi < lo:
        refuse(owner, "deadline", file.new.deadline, f"leaves no start from {shown(lo)} on", "give a later deadline")
    check_length(owner, "time", file.new.time, 4 * MOST / file.new.time)


def _window_job(entry: NewEntry) -> WindowJob[int]:
    ready = -inf if entry.ready is None else entry.ready
    return WindowJob(entry.id, entry.procs, entry.procs, entry.time, entry.deadline, ready, entry.submitted)


def answer_offers(file: OffersFile) -> Answer:
    """Return the offers of a cluster for shares of a bag."""
    _check_offers(file)
    bag = file.bag
    if bag.procs > file.procs:
        return {"offers": []}
    tasks = Tasks(bag.tasks, bag.procs, bag.time)
    ends = [(job.start + job.time, job.procs) for job in file.running]
    profile = Profile(file.procs, file.now, ends)
    if bag.deadline is None:
        for job in file.waiting:
            assert job.start is not None
            profile.hold(job.procs, job.start, job.start + job.time)
        offers = offers_beside(profile, tasks, file.shares, file.now)
    else:
        waiting = [
            DeadlineJob(
                id=job.id,
                tasks=Tasks(1, job.procs, job.time),
                deadline=inf if job.deadline is None else job.deadline,
                ready=-inf if job.ready is None else job.ready,
                submitted=job.submitted,
                planned=() if job.start is None else (TaskGroup(job.start, 1),),
            )
            for job in file.waiting
        ]
        offers = DeadlinePlans(profile, waiting, file.now).offers(tasks, bag.deadline, file.shares)
    return {"offers": [{"tasks": offer.tasks, "end": offer.end} for offer in offers]}


def _check_offers(file: OffersFile) -> None:
    ids, machine = Ids(), HeldMachine(file.procs, file.now)
    machine.run_all(file.running, ids)
    latest = abs(file.now)
    for place, job in enumerate(file.waiting, 1):
        owner = ids.owner("waiting", place, job.id)
        machine.check_size(owner, job.procs)
        if file.bag.deadline is None and job.start is None:
            refuse(owner, "start", None, "is needed beside a bag without deadline", "give its planned start")
        if file.bag.deadline is not None and job.deadline is None:
            refuse(owner, "deadline", None, "is needed beside a bag with a deadline", "give a number")
        if job.start is not None:
            machine.plan(owner, job.start, job.start + job.time, job.procs)
        latest = max(latest, abs(job.start or 0), abs(job.ready or 0))
    if file.bag.deadline is not None and file.bag.deadline <= file.now:
        refuse("bag", "deadline", file.bag.deadline, f"is not above now, {shown(file.now)}", "give a later one")
    latest = max([latest, *(abs(end) for end in machine.profile.ends(file.now))])
    if latest + file.bag.time == latest:
        refuse("bag", "time", file.bag.time, f"is lost beside instants of {latest:.3g} seconds", "give a longer one")


def answer_advance(file: AdvanceFile) -> Answer:
    """Tell which jobs and tasks move forward after an early end."""
    _check_advance(file)
    profile = Profile(file.procs, file.now, [(job.end, job.procs) for job in file.running])
    for job in file.waiting:
        profile.hold(job.procs, job.start, job.start + job.time)
    waiting = [PlannedTasks(job.id, job.procs, job.start, job.time, job.bag) for job in file.waiting]
    advances = advance(profile, waiting, _begun(file), file.bags, file.now, file.coordinated)
    return {
        "starts": {str(job.id): job.start for job in waiting},
        "new_completion_times": _by_name(advances.new_completions),
        "changed": _by_name(advances.changed),
    }


def _by_name(completions: Mapping[Any, float]) -> dict[str, float]:
    return {bag: completions[bag] for bag in sorted(completions)}


def _begun(file: AdvanceFile) -> dict[int | str, float]:
    """Return the latest end of the running tasks of each bag."""
    ends: dict[int | str, float] = {}
    for job in file.running:
        if job.bag is not UNSET:
            ends[job.bag] = max(ends.get(job.bag, job.end), job.end)
    return ends


def _check_advance(file: AdvanceFile) -> None:
    ids, machine = Ids(), HeldMachine(file.procs, file.now)
    for place, held in enumerate(file.running, 1):
        check_span(f"running {place}", held.start, held.end)
        machine.run(f"running {place}", held.start, held.end, held.procs)
        _check_bag(f"running {place}", held.bag, held.end, file.bags)
    for place, job in enumerate(file.waiting, 1):
        owner = ids.owner("waiting", place, job.id)
        machine.plan(owner, job.start, job.start + job.time, job.procs)
        _check_bag(owner, job.bag, job.start + job.time, file.bags)


def _check_bag(owner: str, bag: str | UnsetType | None, end: float, completions: Mapping[str, float]) -> None:
    if bag is None or bag is UNSET:
        return
    if bag not in completions:
        refuse(owner, "bag", bag, "has no completion in key 'bags'", "give one")
    if end > completions[bag]:
        refuse(owner, "bag", bag, f"is done at {shown(completions[bag])}, before this task", "give a later completion")


def answer_map(file: MapFile) -> Answer:
    """Tell which processes of a program run on which cores."""
    _check_map(file)
    check_named("file", "model", file.model, tuple(MAPPERS), MAPPINGS)
    program = Program(file.processes, file.iterations, file.transfer)
    mapping = mapped(file.model, file.resources, file.throughput, program)
    return {"stages": mapping.stages, "seconds": mapping.seconds, "assigned": mapping.assigned}


def _check_map(file: MapFile) -> None:
    there = [kind for kind, cores in file.resources.items() if cores]
    if not there:
        refuse("file", "resources", file.resources, "has no core", "give at least one")
    sizes: set[str] = set(next(iter(file.throughput.values()), {}))
    for kind, rates in file.throughput.items():
        if not rates or set(rates) != sizes:
            refuse("throughput", kind, rates, "has not the sizes of the others", "give each type the same sizes")
        slowest = min(rates.values())
        check_length(f"throughput: {kind}", "rate", slowest, file.processes * (file.iterations / slowest))
    for kind in there:
        if kind not in file.throughput:
            refuse("file", "throughput", file.throughput, f"lacks {shown(kind)}, which has cores", "give its rates")


def answer_predict_run(file: PredictRunFile) -> Answer:
    """Tell how long a job will run, by its user's history."""
    job = JobToPredict(file.job.user, file.job.name, file.job.walltime)
    history = [PastRun(run.user, run.name, run.walltime, run.run, run.end) for run in file.history]
    return {"seconds": predicted_run(predictor_named(file.predictor), job, history, file.now)}


def answer_predict_frames(file: PredictFramesFile) -> Answer:
    """Tell how long frames take in full resolution."""
    if file.base >= len(file.low):
        refuse("file", "base", file.base, f"is no place of key 'low', which has {len(file.low)}", "count from 0")
    if not file.low[file.base]:
        refuse("file", "base", file.base, "is a frame of 0 seconds", "take another frame")
    frames = len(file.low) if file.frames is UNSET else file.frames
    seconds = predicted_frames(file.low, file.base, file.full, frames)
    check_length("file", "low", file.low[file.base], seconds)
    return {"seconds": seconds}


def answer_predict_rate(file: PredictRateFile) -> Answer:
    """Tell how many iterations a second a program makes."""
    for place, (smaller, larger) in enumerate(zip(file.measured, file.measured[1:], strict=False), 2):
        if larger.iterations <= smaller.iterations:
            problem = f"is not above the number before it, {smaller.iterations}"
            refuse(f"measured {place}", "iterations", larger.iterations, problem, "give rising numbers")
    for place, run in enumerate(file.measured, 1):
        check_length(f"measured {place}", "seconds", run.seconds, run.iterations / run.seconds)
    steady = steady_rate([(measured.iterations, measured.seconds) for measured in file.measured], file.steady)
    return {"rate": steady.rate, "iterations": steady.iterations}
