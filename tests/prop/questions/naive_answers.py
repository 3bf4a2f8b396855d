"""Questions of ``oarpy decide`` answered once more, word for word from their definitions, and slowly.

Shares no code with oarpy. Files are read as JSON and may leave out what has a default; nothing is checked.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

Json = dict[str, Any]
Hold = tuple[float, float, int]


def answer(file: Json) -> Json:
    """Answer a question."""
    return _ANSWERS[file["ask"]](file)


def _key(file: Json, key: str, default: Any) -> Any:
    found = file.get(key, default)
    return default if found is None else found


def _id_order(job_id: Any) -> tuple[int, Any]:
    return (0, job_id) if isinstance(job_id, int) else (1, job_id)


def _fits(holds: Iterable[Hold], procs: int, p: int, t: float, d: float) -> bool:
    held = list(holds)
    instants = [t] + [start for start, _, _ in held if t < start < t + d]
    return all(sum(n for start, end, n in held if start <= at < end) + p <= procs for at in instants)


def _earliest(holds: list[Hold], procs: int, p: int, d: float, lo: float, hi: float = math.inf) -> float | None:
    for t in sorted({lo} | {end for _, end, _ in holds if end > lo}):
        if t <= hi and _fits(holds, procs, p, t, d):
            return t
    return None


def _running(file: Json, now: float) -> list[Hold]:
    jobs = [(job["start"], job["start"] + job["time"], job["procs"]) for job in file.get("running", [])]
    return [job for job in jobs if job[1] > now]


# admit


class _Admission:
    def __init__(self, file: Json) -> None:
        self.file, self.now, self.procs = file, file.get("now", 0), file["procs"]
        self.new = file["new"]
        self.me = self.new["id"]
        self.running = _running(file, self.now)
        self.jobs = {job["id"]: job for job in [*file.get("waiting", []), self.new]}
        self.slot = {job["id"]: job["start"] for job in file.get("waiting", [])}
        self.lo = {key: max(_key(job, "ready", self.now), self.now) for key, job in self.jobs.items()}
        self.hi = {key: job["deadline"] - job["time"] for key, job in self.jobs.items()}
        self.queue = _queue(file, self.jobs, self.lo)
        self.limit = _key(file, "limit", math.inf)
        self.valid: dict[float, float] = {}

    @property
    def k(self) -> int:
        return self.queue.index(self.me)

    def held(self, placed: dict[Any, float]) -> list[Hold]:
        jobs = [(s, s + self.jobs[key]["time"], self.jobs[key]["procs"]) for key, s in placed.items()]
        return self.running + jobs

    def attempt(self, window: tuple[float, float]) -> tuple[int | None, dict[Any, float]]:
        placed = {key: self.slot[key] for key in self.queue[: self.k]}
        for i in range(self.k, len(self.queue)):
            key = self.queue[i]
            first, last = window if key == self.me else (self.lo[key], self.hi[key])
            job = self.jobs[key]
            start = _earliest(self.held(placed), self.procs, job["procs"], job["time"], first, last)
            if start is None:
                return i, {}
            placed[key] = start
        return None, placed

    def fixqueue(self, i: int) -> None:
        self.queue.remove(self.me)
        self.queue.insert(i, self.me)

    def accepted(self, placed: dict[Any, float]) -> Json:
        schedule = {str(key): placed[key] for key in self.queue}
        return {"accepted": True, "start": placed[self.me], "schedule": schedule, "offers": []}

    def takes(self, start: float) -> bool:
        accept, take = self.file.get("accept"), self.file.get("take")
        if take is not None:
            return bool(start == take)
        return accept is not None and self.valid[start] <= accept

    def options(self) -> list[tuple[float, float]]:
        time, deadline, lo = self.new["time"], self.new["deadline"], self.lo[self.me]
        found = {}
        for a, b, _ in self.held({key: self.slot[key] for key in self.queue[: self.k]}):
            if a < deadline and b > lo:
                if a - time < lo:
                    found[a - time] = (lo - (a - time)) / time
                if b + time > deadline:
                    found[b] = (b + time - deadline) / time
        return sorted((phi, start) for start, phi in found.items() if start >= self.now and phi <= self.limit)

    def algorithm_1(self) -> Json | None:
        while True:
            i, placed = self.attempt((self.lo[self.me], self.hi[self.me]))
            if i is None:
                return self.accepted(placed)
            if i == self.k:
                return None
            self.fixqueue(i)

    def algorithm_2(self) -> Json | None:
        again = True
        while again:
            again = False
            for phi, start in self.options():
                if start in self.valid:
                    continue
                i, placed = self.attempt((start, start))
                if i is None:
                    self.valid[start] = phi
                    if self.takes(start):
                        return self.accepted(placed)
                elif i > self.k:
                    self.fixqueue(i)
                    again = True
                    break
        return self.farther()

    def farther(self) -> Json | None:
        time, deadline = self.new["time"], self.new["deadline"]
        if not self.file.get("farther") or any(start > deadline - time for start in self.valid):
            return None
        lo = max(self.lo[self.me], deadline - time)
        start = _earliest(self.held(self.slot), self.procs, self.new["procs"], time, lo)
        assert start is not None
        phi = (start + time - deadline) / time
        if phi > self.limit:
            return None
        self.valid[start] = phi
        return self.accepted({**self.slot, self.me: start}) if self.takes(start) else None

    def refused(self) -> Json:
        offers = sorted((phi, start) for start, phi in self.valid.items())
        return {
            "accepted": False,
            "start": None,
            "schedule": {str(key): start for key, start in self.slot.items()},
            "offers": [{"start": s, "end": s + self.new["time"], "phi": phi} for phi, s in offers],
        }


def _admit(file: Json) -> Json:
    question = _Admission(file)
    return question.algorithm_1() or question.algorithm_2() or question.refused()


def _queue(file: Json, jobs: dict[Any, Json], lo: dict[Any, float]) -> list[Any]:
    by_submission = sorted(jobs, key=lambda key: (jobs[key].get("submitted", 0), _id_order(key)))
    dice = random.Random(file.get("seed", 1))
    drawn = {key: dice.random() for key in by_submission}
    keys: dict[str, Callable[[Any], float]] = {
        "fifo": lambda key: 0,
        "bjf": lambda key: -jobs[key]["time"] * jobs[key]["procs"],
        "lff": lambda key: jobs[key]["deadline"] - lo[key] - jobs[key]["time"],
        "edf": lambda key: jobs[key]["deadline"],
        "shuffle": lambda key: drawn[key],
    }
    return sorted(by_submission, key=keys[file.get("criterion", "edf")])


# coallocate and compress


def _turn(names: list[str], first: str | None) -> list[str]:
    at = 0 if first is None else names.index(first)
    return names[at:] + names[:at]


def _common(
    holds: dict[str, list[Hold]], providers: dict[str, Json], turn: list[str], job: Json, lo: float
) -> tuple[float, float, dict[str, int]] | None:
    procs, time, at_most = job["procs"], job["time"], job.get("at_most", {})
    end_by = _key(job, "end_by", math.inf)
    long = time * (1 + job.get("overhead", 0))
    d = long / min(one.get("speed", 1) for one in providers.values())
    for t in sorted({lo} | {end for held in holds.values() for _, end, _ in held if end > lo}):
        for name in turn:
            alone = time / providers[name].get("speed", 1)
            enough = at_most.get(name, procs) >= procs and t + alone <= end_by
            if enough and _fits(holds[name], providers[name]["procs"], procs, t, alone):
                return t, t + alone, {name: procs}
        left, parts = procs, {}
        for name in turn:
            free = 0
            while _fits(holds[name], providers[name]["procs"], free + 1, t, d):
                free += 1
            here = min(left, at_most.get(name, left), free)
            if here:
                parts[name] = here
            left -= here
        if not left:
            end = t + long / min(providers[name].get("speed", 1) for name in parts)
            if end <= end_by:
                return t, end, parts
    return None


def _coallocate(file: Json) -> Json:
    now = file.get("now", 0)
    providers = {one["name"]: one for one in file["providers"]}
    holds = {name: [(a, b, n) for a, b, n in one.get("holds", []) if b > now] for name, one in providers.items()}
    lo = max(_key(file["job"], "ready", now), now)
    found = _common(holds, providers, _turn(list(providers), file.get("first")), file["job"], lo)
    start, end, parts = found or (None, None, {})
    return {"start": start, "end": end, "parts": parts}


class _Compression:
    def __init__(self, file: Json) -> None:
        self.now, self.operation = file.get("now", 0), file.get("operation", "shift")
        self.providers = {one["name"]: one for one in file["providers"]}
        self.local = {
            name: {job["id"]: dict(job) for job in one.get("local", [])} for name, one in self.providers.items()
        }
        self.metajobs: dict[Any, Json] = {}
        for job in file.get("metajobs", []):
            speeds = [self.providers[name].get("speed", 1) for name in job["parts"]]
            long = job["time"] if len(speeds) == 1 else job["time"] * (1 + job.get("overhead", 0))
            self.metajobs[job["id"]] = {**job, "end": job["start"] + long / min(speeds)}

    def fits(self, name: str, without: Any, p: int, t: float, d: float) -> bool:
        return _fits(self.holds(name, without), self.providers[name]["procs"], p, t, d)

    def holds(self, name: str, without: Any) -> list[Hold]:
        found = [(a, b, n) for a, b, n in self.providers[name].get("running", []) if b > self.now]
        for key, job in self.local[name].items():
            if key != without:
                found.append((job["start"], job["start"] + job["time"], job["procs"]))
        for key, job in self.metajobs.items():
            if key != without and name in job["parts"]:
                found.append((job["start"], job["end"], job["parts"][name]))
        return found

    def locals_of(self, name: str) -> None:
        jobs, procs = self.local[name], self.providers[name]["procs"]
        for key in sorted(jobs, key=lambda key: (jobs[key]["start"], _id_order(key))):
            job = jobs[key]
            job["start"] = _earliest(self.holds(name, key), procs, job["procs"], job["time"], self.now, job["start"])

    def new_place(self, key: Any, job: Json) -> tuple[float, float, dict[str, int]] | None:
        lo = max(_key(job, "ready", self.now), self.now)
        held = {name: self.holds(name, key) for name in self.providers}
        if self.operation == "remap":
            turn = _turn(list(self.providers), job.get("first"))
            return _common(held, self.providers, turn, {**job, "end_by": None}, lo)
        d = job["end"] - job["start"]
        for t in sorted({lo} | {end for name in held for _, end, _ in held[name] if end > lo}):
            if t < job["start"] and all(self.fits(name, key, n, t, d) for name, n in job["parts"].items()):
                return t, t + d, dict(job["parts"])
        return None

    def round(self, p: str) -> set[str]:
        """Return the providers that were touched."""
        touched: set[str] = set()
        there = [key for key, job in self.metajobs.items() if p in job["parts"]]
        for key in sorted(there, key=lambda key: (self.metajobs[key]["start"], _id_order(key))):
            job = self.metajobs[key]
            found = self.new_place(key, job)
            if found is not None and found[1] < job["end"]:
                touched |= set(job["parts"]) | set(found[2])
                job["start"], job["end"], job["parts"] = found
        return touched


def _compress(file: Json) -> Json:
    p, state = file["provider"], _Compression(file)
    state.locals_of(p)
    touched: set[str] = set()
    while state.operation != "rigid" and state.fits(p, None, 1, state.now, 0):
        more = state.round(p)
        touched |= more
        if not more:
            break
    if touched:
        state.locals_of(p)
        for name in state.providers:
            if name in touched and name != p:
                state.locals_of(name)
    return {
        "local": {str(key): job["start"] for jobs in state.local.values() for key, job in jobs.items()},
        "metajobs": {
            str(key): {"start": job["start"], "end": job["end"], "parts": job["parts"]}
            for key, job in state.metajobs.items()
        },
    }


# map


def _map(file: Json) -> Json:
    resources, rates, transfer = file["resources"], file["throughput"], file.get("transfer", 0)
    there = [kind for kind in resources if resources[kind]]
    kinds = sorted(there, key=lambda kind: -math.fsum(rates[kind].values()) / len(rates[kind]))
    cores = [kind for kind in kinds for _ in range(resources[kind])]
    sizes = sorted(rates[there[0]], key=lambda size: math.fsum(rates[kind][size] for kind in there))
    count, many = len(cores), len(sizes)
    left = {
        size: file["processes"] // many + (1 if place < file["processes"] % many else 0)
        for place, size in enumerate(sizes)
    }
    assigned: dict[str, dict[str, int]] = {kind: {} for kind in resources}

    def give(kind: str, size: str) -> float:
        left[size] -= 1
        assigned[kind][size] = assigned[kind].get(size, 0) + 1
        return float(file["iterations"] / rates[kind][size])

    stages, seconds = 0, 0.0
    busy = [0.0] * count
    while any(left.values()):
        stages += 1
        longest = 0.0
        if file["model"] == "sync":
            for i, kind in enumerate(cores):
                size = sizes[i if count < many else min(i // (count // many), many - 1)]
                if not left[size]:
                    size = next((one for one in sizes if left[one]), "")
                if size:
                    longest = max(longest, give(kind, size))
            seconds += longest + transfer
        else:
            for size in sizes:
                if left[size]:
                    ends = [busy[i] + file["iterations"] / rates[kind][size] for i, kind in enumerate(cores)]
                    first = ends.index(min(ends))
                    busy[first] += give(cores[first], size) + transfer
    ordered = {kind: {size: got[size] for size in sizes if size in got} for kind, got in assigned.items()}
    if file["model"] == "async":
        return {"stages": None, "seconds": max(busy), "assigned": ordered}
    return {"stages": stages, "seconds": seconds, "assigned": ordered}


# offers


def _sizes(file: Json) -> list[int]:
    tasks = file["bag"]["tasks"]
    return sorted({math.ceil(Fraction(tasks * share, 100)) for share in file.get("shares", [10, 25, 50, 75, 100])})


class _Offers:
    def __init__(self, file: Json) -> None:
        self.now, self.procs, self.bag = file.get("now", 0), file["procs"], file["bag"]
        self.running, self.waiting = _running(file, self.now), file.get("waiting", [])
        given = self.running + [
            (job["start"], job["start"] + job["time"], job["procs"])
            for job in self.waiting
            if job.get("start") is not None
        ]
        self.base = given
        if self.bag.get("deadline") is not None:
            met, planned = self.edf(0, 0)
            if met or any(job.get("start") is None for job in self.waiting):
                self.base = planned

    def tasks(self, held: list[Hold], n: int) -> float:
        """Place n tasks, and return the last end."""
        p, time, last = self.bag.get("procs", 1), self.bag["time"], -math.inf
        for _ in range(n):
            start = _earliest(held, self.procs, p, time, self.now)
            assert start is not None
            held.append((start, start + time, p))
            last = max(last, start + time)
        return last

    def edf(self, n: int, d: float) -> tuple[bool, list[Hold]]:
        """Return whether everybody ends by the deadline in the EDF plan with n tasks, and what is held."""
        order = [(job["deadline"], 0, job.get("submitted", 0), _id_order(job["id"]), job) for job in self.waiting]
        if n:
            order.append((d, 1, 0, (0, 0), {}))
        held, met = list(self.running), True
        for deadline, is_bag, _, _, job in sorted(order, key=lambda entry: entry[:4]):
            if is_bag:
                met = self.tasks(held, n) <= d and met
            else:
                lo = max(_key(job, "ready", self.now), self.now)
                start = _earliest(held, self.procs, job["procs"], job["time"], lo)
                assert start is not None
                held.append((start, start + job["time"], job["procs"]))
                met = start + job["time"] <= deadline and met
        return met, held

    def end_of(self, n: int) -> float:
        beside, deadline = self.tasks(list(self.base), n), self.bag.get("deadline")
        if deadline is None:
            return beside

        def feasible(d: float) -> bool:
            return beside <= d or self.edf(n, d)[0]

        if feasible(deadline):
            return float(deadline)
        lo, hi = deadline, beside
        while hi - lo > 1:
            mid = math.floor((lo + hi) / 2)
            if mid <= lo:
                break
            if feasible(mid):
                hi = mid
            else:
                lo = mid
        return float(hi)


def _offers(file: Json) -> Json:
    if file["bag"].get("procs", 1) > file["procs"]:
        return {"offers": []}
    question = _Offers(file)
    found = [(n, question.end_of(n)) for n in _sizes(file)]
    kept = [(n, end) for n, end in found if not any(m > n and other <= end for m, other in found)]
    return {"offers": [{"tasks": n, "end": end} for n, end in kept]}


# compose


def _exact(value: Any) -> Fraction:
    return Fraction(str(value))


def _share_out(n: int, shares: list[Fraction], caps: list[int]) -> list[int]:
    got = [min(math.floor(share), cap) for share, cap in zip(shares, caps, strict=True)]
    for i in sorted(range(len(shares)), key=lambda i: (-(shares[i] - math.floor(shares[i])), i)):
        if got[i] < caps[i] and sum(got) < n:
            got[i] += 1
    for i in range(len(got)):
        while got[i] < caps[i] and sum(got) < n:
            got[i] += 1
    return got


def _compose(file: Json) -> Json:
    policy, tasks, deadline, offers = file["policy"], file["tasks"], file.get("deadline"), file.get("offers", [])
    power, pending = file.get("power", {}), file.get("pending", {})

    def best(t: float) -> list[Json]:
        found = []
        for provider in dict.fromkeys(one["provider"] for one in offers):
            mine = [one for one in offers if one["provider"] == provider and one["end"] <= t]
            if mine:
                found.append(min(mine, key=lambda one: (-one["tasks"], one["end"], offers.index(one))))
        return found

    ends = sorted({one["end"] for one in offers})
    star = next((t for t in ends if sum(one["tasks"] for one in best(t)) >= tasks), None)
    if star is None:
        return {"policy": policy, "parts": [], "end": None, "meets": None if deadline is None else False}
    if policy == "nolb" or (deadline is not None and star > deadline):
        policy = "nolb"
        met = [one for one in best(star) if deadline is not None and one["end"] <= deadline]
        others = [one for one in best(star) if one not in met]
        met.sort(key=lambda one: (-one["tasks"], one["end"], one["provider"]))
        others.sort(key=lambda one: (one["end"], one["provider"]))
        chosen, counts, left = met + others, [], tasks
        for one in chosen:
            counts.append(min(one["tasks"], left))
            left -= counts[-1]
    else:
        chosen = best(star if deadline is None else deadline)
        chosen.sort(key=lambda one: (-one["tasks"], -power.get(one["provider"], 0), one["provider"]))
        whole = sum(one["tasks"] for one in chosen)
        if policy == "plb":
            shares = [Fraction(one["tasks"] * tasks, whole) for one in chosen]
            counts = _share_out(tasks, shares, [one["tasks"] for one in chosen])
        else:
            counts = _groups(policy, tasks, whole, chosen, power, pending)
    parts = [
        {"provider": one["provider"], "tasks": n, "end": one["end"]} for one, n in zip(chosen, counts, strict=True) if n
    ]
    end = max(part["end"] for part in parts)
    return {"policy": policy, "parts": parts, "end": end, "meets": None if deadline is None else end <= deadline}


def _groups(policy: str, tasks: int, whole: int, chosen: list[Json], power: Json, pending: Json) -> list[int]:
    def weight(one: Json) -> Fraction:
        own = _exact(power[one["provider"]])
        return own if policy == "dplb" else own / (1 + _exact(pending[one["provider"]]) / (3600 * own))

    sizes = list(dict.fromkeys(one["tasks"] for one in chosen))
    groups = [[one for one in chosen if one["tasks"] == size] for size in sizes]
    totals = [sum(one["tasks"] for one in group) for group in groups]
    counts = []
    for group, n in zip(groups, _share_out(tasks, [Fraction(t * tasks, whole) for t in totals], totals), strict=True):
        weights = [weight(one) for one in group]
        shares = [n * own / sum(weights) for own in weights]
        counts += _share_out(n, shares, [one["tasks"] for one in group])
    return counts


# advance


def _advance(file: Json) -> Json:
    now, procs, bags = file.get("now", 0), file["procs"], file.get("bags", {})
    jobs = {job["id"]: dict(job) for job in file.get("waiting", [])}
    running = file.get("running", [])

    def end(job: Json) -> float:
        return float(job["start"] + job["time"])

    def here() -> dict[str, float]:
        found: dict[str, float] = {}
        for name, at in [(job.get("bag"), end(job)) for job in jobs.values()] + [
            (entry[3] if len(entry) > 3 else None, entry[1]) for entry in running
        ]:
            if name is not None:
                found[name] = max(found.get(name, -math.inf), at)
        return found

    def replace_all(order: list[Any]) -> None:
        for key in order:
            held = [(entry[0], entry[1], entry[2]) for entry in running if entry[1] > now]
            held += [(job["start"], end(job), job["procs"]) for other, job in jobs.items() if other != key]
            job = jobs[key]
            job["start"] = _earliest(held, procs, job["procs"], job["time"], now, job["start"])

    before = here()
    held = {job["bag"] for job in jobs.values() if job.get("bag") is not None and end(job) == bags[job["bag"]]}
    if file.get("coordinated", True):
        completion = {key: end(job) if job.get("bag") is None else bags[job["bag"]] for key, job in jobs.items()}
        replace_all(sorted(jobs, key=lambda key: (completion[key], jobs[key]["start"], _id_order(key))))
    replace_all(sorted(jobs, key=lambda key: (jobs[key]["start"], _id_order(key))))
    after = here()
    return {
        "starts": {str(key): job["start"] for key, job in jobs.items()},
        "new_completion_times": {name: after[name] for name in sorted(held) if after[name] != bags[name]},
        "changed": {name: after[name] for name in sorted(after) if after[name] != before[name]},
    }


# predict


def _predict(file: Json) -> Json:
    predictor = file["predictor"]
    if predictor == "profile":
        low = file["low"]
        mean = sum(low) / len(low)
        return {"seconds": mean * file.get("frames", len(low)) * file["full"] / low[file["base"]]}
    if predictor == "rate":
        rates = [n / seconds for n, seconds in file["measured"]]
        for i in range(1, len(rates)):
            if abs(rates[i] - rates[i - 1]) < file.get("steady", 0.05) * rates[i - 1]:
                return {"rate": rates[i], "iterations": file["measured"][i][0]}
        return {"rate": rates[-1], "iterations": file["measured"][-1][0]}
    job, now = file["job"], file.get("now", 0)
    mine = [run for run in file.get("history", []) if run["user"] == job["user"] and run["end"] <= now]
    mine.sort(key=lambda run: -run["end"])
    seconds = job["walltime"]
    if predictor == "last2" and len(mine) >= 2:
        seconds = (mine[0]["run"] + mine[1]["run"]) / 2
    if predictor == "similar":
        alike = [run for run in mine if run["name"] == job["name"]][:30]
        if len(alike) < 3:
            alike = mine[:30]
        if len(alike) >= 3:
            parts = sorted(run["run"] / run["walltime"] for run in alike)
            seconds = job["walltime"] * parts[math.ceil(Fraction(9 * len(parts), 10)) - 1]
    return {"seconds": min(seconds, job["walltime"])}


_ANSWERS: dict[str, Callable[[Json], Json]] = {
    "admit": _admit,
    "coallocate": _coallocate,
    "compress": _compress,
    "map": _map,
    "offers": _offers,
    "compose": _compose,
    "advance": _advance,
    "predict": _predict,
}
