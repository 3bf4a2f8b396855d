"""Scheduling cases as they stand in docs/scheduling: a cluster, jobs, and the Gantt that they give.

``docs/scheduling/index.md`` describes the notation. Everything happens at second 0.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from msgspec import structs

from oarpy.cluster_state.order_plugins import SiteOrders
from oarpy.model.dates import NO_DATES, JobDates
from oarpy.model.dependency import parse_dependency
from oarpy.model.request import Consumption, parse_request
from oarpy.model.setting_values import PolicyName
from oarpy.scheduler.bags.bag_pass import Bag, BagAnswers, BagStep
from oarpy.scheduler.decide import GIVEN_UP, Decisions, decide
from oarpy.scheduler.memory import Memory
from oarpy.scheduler.order.usage_shares import FactorRules, Priorities, Usage
from oarpy.scheduler.resources.consumables import Consumable
from oarpy.scheduler.resources.platform import Platform, Resource
from oarpy.scheduler.rules.reservations import promised
from oarpy.scheduler.snapshot import (
    DEFAULT_QUEUES,
    Alternative,
    HoldingJob,
    Outage,
    PassShare,
    PowerRules,
    Queue,
    QuotaRule,
    Reservation,
    Rules,
    Snapshot,
    WaitingJob,
    WalltimeRequest,
)
from oarpy.scheduler.windows.reservation_windows import ReservationWindow, Windows
from oarpy.simulation.scenarios.reader import admitted
from tests.cases.gantt_text import Bar, render

STEP = 10
"""Seconds of a column."""
WAKEUP, SLEEP = 20, 50
"""Seconds before its use at which a node is woken, and within which none may be foreseen for one that sleeps."""

_AMOUNTS = {"consumes": "consumes", "keeps": "kept_amounts", "gave_back": "amounts_given_back"}
"""What jobs that hold resources have of consumables, as cases name it."""

Options = dict[str, str]


@dataclass(slots=True)
class Case:
    """What the lines of a case say before ``gives``."""

    rows: list[Resource] = field(default_factory=list)
    snapshot: dict[str, object] = field(default_factory=dict)
    queues: list[Queue] = field(default_factory=list)
    quotas: list[QuotaRule] = field(default_factory=list)
    consumables: list[Consumable] = field(default_factory=list)
    holding: list[HoldingJob] = field(default_factory=list)
    waiting: list[WaitingJob] = field(default_factory=list)
    asleep: set[str] = field(default_factory=set)
    keep: int = 0
    outages: list[tuple[str, float, float, str]] = field(default_factory=list)
    reservations: list[Reservation] = field(default_factory=list)
    lead: int = 0
    suspended: list[HoldingJob] = field(default_factory=list)
    changes: list[WalltimeRequest] = field(default_factory=list)
    compressed: bool = False
    ended: list[HoldingJob] = field(default_factory=list)
    windows: dict[int, ReservationWindow] = field(default_factory=dict)
    notice: float = 0
    bags: list[Bag] = field(default_factory=list)
    share: float = 100
    """The share of the resources that tasks of bags may hold, in percent."""


def outcome(text: str) -> str:
    """Return what the case in ``text`` gives, as it has to stand after ``gives``; the words there say what to tell."""
    given, _, expected = text.partition("gives\n")
    case = _read(given)
    snapshot = _snapshot(case)
    memory, orders = Memory(lambda: 0.0, compression=case.compressed), SiteOrders()
    # what just ended early is still there in the pass before, which is compressed or forgotten
    decide(replace(snapshot, holding=(*snapshot.holding, *case.ended)), memory, orders)
    decided = decide(snapshot, memory, orders)
    lines = expected.splitlines()
    columns = next((len(line.partition("|")[2]) - 1 for line in lines if "|" in line), 0)
    told = _gantt(case, decided, columns) if columns else []
    for line in lines:
        if "|" not in line:
            told += _told(line.split(), decided)
    return "".join(f"{line}\n" for line in told)


def _snapshot(case: Case) -> Snapshot:
    order = ("(asleep)",) if case.asleep else ()
    rows = [
        replace(row, properties={**row.properties, "(asleep)": row.properties.get("network_address") in case.asleep})
        for row in case.rows
    ]
    platform = Platform.build(rows if case.asleep else case.rows, order=order)
    filters, errors = admitted(platform, [*case.waiting, *(one.job for one in case.reservations)])
    promises = (promised(one, 0) for one in case.reservations)
    return replace(
        Snapshot(now=0, platform=platform),
        queues=tuple(case.queues) or DEFAULT_QUEUES,
        quotas=tuple(case.quotas),
        consumables=tuple(case.consumables),
        holding=(
            *case.holding,
            *(structs.replace(job, resources=(), given_back=platform.bits_of(job.resources)) for job in case.suspended),
            *(job for job in promises if job is not None),
        ),
        waiting=tuple(case.waiting),
        outages=tuple(
            Outage(begin, block.bits, end, reason)
            for host, begin, end, reason in case.outages
            for block in platform.blocks("network_address")
            if block.value == host
        ),
        filters=filters,
        filter_errors=errors,
        rules=Rules(case.lead, power=PowerRules(WAKEUP, SLEEP, (("", case.keep),) if case.keep else ())),
        reservations=tuple(case.reservations),
        promising=BagStep(case.bags, case.share) if case.bags else None,
        walltime_requests=tuple(_request(one, case.holding) for one in case.changes),
        asleep=platform.bits_of(row.id for row in case.rows if row.properties.get("network_address") in case.asleep),
        windows=Windows(case.windows, notice=case.notice, replan=bool(case.ended)) if case.windows else None,
        rested=frozenset(str(block.value) for block in platform.blocks("network_address")),
        **case.snapshot,  # type: ignore[arg-type]
    )


def snapshot_of(text: str) -> Snapshot:
    """Return what the case in ``text`` describes."""
    return _snapshot(_read(text.partition("gives\n")[0]))


def _read(given: str) -> Case:
    case = Case()
    for line in given.splitlines():
        if line.strip() and not line.startswith("#"):
            word, *rest = shlex.split(line)
            _READERS[word](case, rest)
    return case


def _request(asked: WalltimeRequest, running: Iterable[HoldingJob]) -> WalltimeRequest:
    """Return a request with what it is for."""
    job = next(one for one in running if one.id == asked.job)
    return replace(asked, walltime=job.walltime, end=job.end)


def _gantt(case: Case, decided: Decisions, columns: int) -> list[str]:
    snapshot = decided.kept.snapshot
    bars = [Bar(job.id, job.start, job.end, job.resources) for job in snapshot.holding]
    bars += [
        Bar(job.id, job.resumes, job.end, snapshot.platform.ids_of(job.given_back))
        for job in snapshot.holding
        if job.resumes is not None
    ]
    bars += [
        Bar(one.job, one.start, one.end, one.resources)
        for one in decided.plan.placements
        if one.start is not None and one.end is not None
    ]
    promised_tasks = decided.promised.accepted if decided.promised is not None else ()
    bars += [
        Bar(one.job, one.start, one.end, one.resources)
        for one in promised_tasks
        if one.start is not None and one.end is not None
    ]
    letters = {bar.job: str(bar.job)[-1] for bar in bars}
    everybody: list[HoldingJob | WaitingJob] = [*snapshot.holding, *case.waiting]
    around = [job for job in everybody if any(word in _OPENING for word in _words(job))]
    beneath = [job.id for job in sorted(around, key=lambda job: "inner" in _words(job))]
    text = render(snapshot.platform, bars, step=STEP, columns=columns, letters=letters, beneath=beneath)
    return text.splitlines()


_OPENING = ("container", "placeholder")


def _words(job: HoldingJob | WaitingJob) -> set[str]:
    return {word.partition("=")[0] for word in job.types}


def _told(words: Sequence[str], decided: Decisions) -> list[str]:
    """Say what an expected line is about: a kind of decision, or the verdict of a job."""
    if words[0] in _KINDS:
        return _KINDS[words[0]](decided)
    one = decided.plan.by_job()[int(words[0].rstrip(":"))]
    # a line that ends after the verdict does not tell the reason
    return [f"{one.job}: {one.verdict}" + (f", {one.reason}" if len(words) > 2 else "")]


def _begins(decided: Decisions) -> list[str]:
    reserved = {one.job.id for one in decided.kept.snapshot.reservations}
    starts = [one for one in decided.starts if one.job in reserved]
    ids_of = decided.kept.snapshot.platform.ids_of
    return [f"begins {one.job} on {_listed(ids_of(one.bits))} for {one.walltime:g}" for one in starts]


def _listed(resources: Iterable[int]) -> str:
    return ",".join(map(str, sorted(resources)))


def _promises(decided: Decisions) -> list[str]:
    assert isinstance(decided.promised, BagAnswers)
    told = [f"promises {bag}: {promise:g}" for bag, promise in decided.promised.promises.items()]
    refused = {str(reason): job for job, (reason, _) in reversed(list(decided.promised.refused.items()))}
    return told + [f"promises {job}: {reason}" for reason, job in refused.items()]


_KINDS: dict[str, Callable[[Decisions], list[str]]] = {
    "cancels": lambda found: [" ".join(["cancels", *map(str, found.victims)])],
    "grants": lambda found: [" ".join(["grants", *(f"{job}={seconds}" for job, seconds in found.walltimes.granted)])],
    "wakes": lambda found: [" ".join(["wakes", *found.power.wake])],
    "sleeps": lambda found: [" ".join(["sleeps", *found.power.sleep])],
    "shifts": lambda found: [
        "shifts " + ", ".join(f"{one.reservation.job.id} from {one.before:g}" for one in found.windows.moves)
    ],
    "promises": _promises,
    "offers": lambda found: [
        f"offers {job}: " + ", ".join(f"{one.start:g}..{one.end:g} phi {one.phi:g}" for one in some)
        for job, some in found.windows.offers.items()
    ],
    "moves": lambda found: [f"moves {one.job.id} to {_listed(one.resources)}" for one in found.kept.moves],
    "begins": _begins,
    "awaits": lambda found: [f"awaits {job}: {text}" for job, text in found.awaiting.items()],
    "expires": lambda found: [f"expires {one.job}: {one.reason}" for one in found.refused if one.event == GIVEN_UP],
}


# --- the lines of a case


def _cluster(case: Case, words: Sequence[str]) -> None:
    for word in words:
        name, _, cores = word.partition(":")
        for _ in range(int(cores)):
            number = len(case.rows) + 1
            case.rows.append(Resource(number, properties={"network_address": name, "core": number}))


def _licences(case: Case, words: Sequence[str]) -> None:
    for _ in range(int(words[0])):
        number = len(case.rows) + 1
        case.rows.append(Resource(number, "licence", properties={"licence": number}))


def _property(case: Case, words: Sequence[str]) -> None:
    name, *values = words
    for word in values:
        ids, _, value = word.partition("=")
        for number in _ids(ids):
            row = case.rows[number - 1]
            known: object = int(value) if value.isdigit() else value
            case.rows[number - 1] = replace(row, properties={**row.properties, name: known})


def _state(case: Case, words: Sequence[str]) -> None:
    for word in words:
        ids, _, state = word.partition("=")
        for number in _ids(ids):
            case.rows[number - 1] = replace(case.rows[number - 1], state=state)


def _set(case: Case, words: Sequence[str]) -> None:
    options = _options(words)
    for name, kind in (("security_time", int), ("besteffort_minimum_life", int)):
        if name in options:
            case.snapshot[name] = kind(options.pop(name))
    if options.get("policy") == "compressed":
        del options["policy"]
        case.compressed = True
    if "policy" in options:
        policy: PolicyName = options.pop("policy")  # type: ignore[assignment]
        case.snapshot["policy"] = policy
    if "exclusive_levels" in options:
        case.snapshot["exclusive_levels"] = tuple(options.pop("exclusive_levels").split(","))
    case.lead = int(options.pop("besteffort_kill_before_reservation", case.lead))
    case.share = float(options.pop("promised_share", case.share))
    case.notice = float(options.pop("reservation_notice", case.notice))
    if "keep_alive" in options:
        case.keep = int(options.pop("keep_alive"))
    if {"jobs_per_pass", "jobs_per_user"} & options.keys():
        case.snapshot["ration"] = PassShare(int(options.pop("jobs_per_pass", 0)), int(options.pop("jobs_per_user", 0)))
    _refuse(options)


def _past(case: Case, words: Sequence[str]) -> None:
    used = {user: float(share) for user, share in _options(words).items()}
    before = case.snapshot.get("priorities", Priorities())
    assert isinstance(before, Priorities)
    case.snapshot["priorities"] = replace(before, usage=Usage(used, used))


def _weights(case: Case, words: Sequence[str]) -> None:
    options = {name: float(value) for name, value in _options(words).items()}
    before = case.snapshot.get("priorities", Priorities())
    assert isinstance(before, Priorities)
    factors = FactorRules(**{"age": 0.0, "karma": 0.0, **options})  # type: ignore[arg-type]
    case.snapshot["priorities"] = replace(before, factors=factors, resources=len(case.rows))


def _queue(case: Case, words: Sequence[str]) -> None:
    name, priority, policy = words
    case.queues.append(Queue(name, int(priority), policy))


def _gives_way(case: Case, words: Sequence[str]) -> None:
    name, *others = words
    place = next(place for place, queue in enumerate(case.queues) if queue.name == name)
    case.queues[place] = replace(case.queues[place], gives_way_to=tuple(others))


def _quota(case: Case, words: Sequence[str]) -> None:
    options = _options(words)
    valid = options.pop("valid", None)
    spans = None if valid is None else tuple(_span(part) for part in valid.split(","))
    numbers = {name: float(options.pop(name)) for name in ("resources", "jobs", "resource_hours") if name in options}
    words = ("queue", "project", "type", "user", "period", "level")
    patterns = {name: options.pop(name) for name in words if name in options}
    _refuse(options)
    case.quotas.append(QuotaRule(**patterns, **numbers, valid=spans))  # type: ignore[arg-type]


def _consumable(case: Case, words: Sequence[str]) -> None:
    name, *capacities = words
    options = _options(capacities)
    level = options.pop("level", "network_address")
    case.consumables.append(Consumable(name, level, {block: int(amount) for block, amount in options.items()}))


def _asleep(case: Case, words: Sequence[str]) -> None:
    case.asleep |= set(words)


def _available(case: Case, words: Sequence[str]) -> None:
    for word in words:
        host, _, date = word.partition("=")
        case.outages.append((host, float(date), inf, ""))


def _maintenance(case: Case, words: Sequence[str]) -> None:
    host, span, *reason = words
    case.outages.append((host, *_span(span), f"maintenance of {host} ({' '.join(reason)})"))


def _reserved(case: Case, words: Sequence[str]) -> None:
    number, ids, span, request, *rest = words
    start, end = _span(span)
    _job(case, [number, request, f"{end - start:g}", f"at={start}", *rest])
    case.reservations.append(Reservation(case.waiting.pop(), start, end - start, tuple(_ids(ids))))


def _walltime(case: Case, words: Sequence[str]) -> None:
    number, seconds, *how = words
    whole, delay = "whole" in how, "delay" in how
    case.changes.append(WalltimeRequest(int(number), int(seconds), whole=whole, delay_next_jobs=delay))


def _running(case: Case, words: Sequence[str]) -> None:
    number, ids, span, *rest = words
    start, end = _span(span)
    options = _options(rest)
    types = tuple(options.pop("types", "").split())
    amounts = {field: _amounts(options.pop(word, "")) for word, field in _AMOUNTS.items()}
    checkpoint = int(options.pop("checkpoint", 0))
    case.holding.append(
        HoldingJob(
            int(number),
            options.pop("user", "ann"),
            start,
            end - start,
            tuple(_ids(ids)),
            types=types,
            checkpoint=checkpoint,
            **amounts,  # type: ignore[arg-type]
            levels=tuple(options.pop("levels", "").split()),
            **options,  # type: ignore[arg-type]
        )
    )


def _amounts(text: str) -> tuple[Consumption, ...]:
    return parse_request(f"/core=1,{text}").consumes if text else ()


def _ended(case: Case, words: Sequence[str]) -> None:
    _running(case, words)
    case.ended.append(case.holding.pop())


def _suspended(case: Case, words: Sequence[str]) -> None:
    """Read a suspended job with what is left of its walltime, and whether it is to go on."""
    number, ids, rest, *options = words
    resuming = "resuming" in options
    _running(case, [number, ids, f"0..{rest}", *(word for word in options if word != "resuming")])
    case.suspended.append(structs.replace(case.holding.pop(), resuming=resuming))


def _job(case: Case, words: Sequence[str]) -> None:
    number, *rest = words
    ways = []
    while rest and "=" in rest[0] and rest[0][0] in "/{":
        request, walltime, *rest = rest
        parsed = parse_request(request)
        ways.append(Alternative(parsed.groups, int(walltime), parsed.consumes))
        if rest and rest[0] == "or":
            del rest[0]
    held = "held" in rest
    options = _options(word for word in rest if word != "held")
    dates = JobDates(
        float(options.pop("postpone", -inf)), float(options.pop("expire", inf)), float(options.pop("deadline", inf))
    )
    after = tuple(parse_dependency(one) for one in options.pop("after", "").split())
    date = options.pop("at", None)
    if "window" in options:
        ready, deadline = _span(options.pop("window"))
        fixed = options.pop("fixed", "no") == "yes"
        farthest, percent = options.pop("farthest", None), options.pop("slack_percent", None)
        case.windows[int(number)] = ReservationWindow(
            deadline,
            ready,
            fixed,
            farthest=None if farthest is None else float(farthest),
            slack_percent=None if percent is None else int(percent),
        )
    case.waiting.append(
        WaitingJob(
            int(number),
            options.pop("user", "ann"),
            types=tuple(options.pop("types", "").split()),
            submitted=int(options.pop("submitted", 0)),
            alternatives=tuple(ways),
            depends_on=after,
            reservation=None if date is None else float(date),
            dates=NO_DATES if dates == NO_DATES else dates,
            held=held,
            **options,  # type: ignore[arg-type]
        )
    )


def _bag(case: Case, words: Sequence[str]) -> None:
    """Read a new bag, or with a promise one whose tasks are reservations above."""
    ids, *rest = words
    tasks = _ids(ids)
    options = _options(word for word in rest if "=" in word and word[0] not in "/{")
    deadline, promise = options.pop("deadline", None), options.pop("promise", None)
    strict = options.pop("strict", "no") == "yes"
    _refuse(options)
    if promise is None:
        for task in tasks:
            _job(case, [str(task), *rest[:2], "types=bag"])
    case.bags.append(
        Bag(
            tasks[0],
            frozenset(tasks),
            None if deadline is None else float(deadline),
            strict,
            None if promise is None else float(promise),
        )
    )


def _options(words: Iterable[str]) -> Options:
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def _refuse(options: Options) -> None:
    if options:
        raise ValueError(f"unknown: {options}")


def _ids(text: str) -> list[int]:
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def _span(text: str) -> tuple[float, float]:
    begin, _, end = text.partition("..")
    return float(begin), float(end or inf)


_READERS: dict[str, Callable[[Case, Sequence[str]], None]] = {
    "cluster": _cluster,
    "licences": _licences,
    "property": _property,
    "state": _state,
    "set": _set,
    "used": _past,
    "weights": _weights,
    "queue": _queue,
    "gives_way": _gives_way,
    "quota": _quota,
    "consumable": _consumable,
    "asleep": _asleep,
    "available": _available,
    "maintenance": _maintenance,
    "running": _running,
    "ended": _ended,
    "suspended": _suspended,
    "walltime": _walltime,
    "reserved": _reserved,
    "job": _job,
    "bag": _bag,
}
