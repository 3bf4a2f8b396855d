"""A planner that is slow and plain: times are whole seconds, every second and every resource is looked at.

It reads the dictionary of a scenario file and shares no code with the scheduler.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

from tests.prop.scheduler.naive_jobs import (
    Job,
    arrival,
    asked,
    exempt,
    inside,
    is_besteffort,
    level_name,
    matches,
    opens,
    queue_of,
    same_key,
    shares,
    valid,
)

FILTERS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "": lambda row: True,
    "gpu = 1": lambda row: row.get("gpu") == 1,
    "gpu = 0": lambda row: row.get("gpu") == 0,
    "type = 'licence'": lambda row: row.get("type") == "licence",
    "gpu IS NULL": lambda row: row.get("gpu") is None,
}


@dataclass
class Hold:
    job: Job
    start: int
    walltime: int
    ids: set[int]
    waiting: bool
    consumes: dict[str, int] = field(default_factory=dict)
    levels: list[tuple[str, bool]] = field(default_factory=list)


@dataclass
class Result:
    verdict: str
    alternative: int | None = None
    start: int | None = None
    end: int | None = None
    resources: list[int] = field(default_factory=list)


class Reference:
    def __init__(self, scenario: dict[str, Any]) -> None:
        self.rows = sorted(scenario["resources"], key=lambda row: row["id"])
        self.row = {row["id"]: row for row in self.rows}
        self.now = scenario.get("now", 0)
        self.security = scenario.get("security_time", 0)
        self.policy = scenario.get("policy", "conservative")
        self.levels = scenario.get("hierarchy")
        self.exclusive = [level_name(name) for name in scenario.get("exclusive_levels", [])]
        self.queues = scenario.get("queues") or [
            {"name": "default", "priority": 3, "policy": "fifo"},
            {"name": "besteffort", "priority": 0, "policy": "fifo"},
        ]
        self.quotas = scenario.get("quotas", [])
        self.projects = {one["name"]: one for one in scenario.get("projects", [])}
        self.consumables = {one["name"]: one for one in scenario.get("consumables", [])}
        self.running = scenario.get("running", [])
        self.jobs = scenario["jobs"]
        self.holds: list[Hold] = []
        self.baseline: list[Hold] = []
        self.spared: defaultdict[int, list[Hold]] = defaultdict(list)
        self.results: dict[int, Result] = {}
        self.kill: set[int] = set()
        self.parked: list[tuple[Job, dict[str, Any]]] = []

    # --- the pass -----------------------------------------------------------------------------------------------

    def run(self) -> None:
        names = {queue["name"] for queue in self.queues}
        for job in self.jobs:
            if queue_of(job) not in names:
                self.results[job["id"]] = Result("never")
        for besteffort in (False, True):
            for job in self.running:
                if is_besteffort(job) == besteffort and job["start"] + job["walltime"] > self.now:
                    self.holds.append(
                        Hold(
                            job,
                            job["start"],
                            job["walltime"],
                            set(job["resources"]),
                            False,
                            job.get("consumes", {}),
                            self.levels_of(job),
                        )
                    )
            self.baseline = [hold for hold in self.holds if any(hold.job is job for job in self.running)]
            for priority in sorted({queue["priority"] for queue in self.queues}, reverse=True):
                merged = [queue for queue in self.queues if queue["priority"] == priority]
                self.run_queues(merged, besteffort)
        for job, _ in self.parked:
            self.results[job["id"]] = Result("dependency")

    def run_queues(self, merged: list[dict[str, Any]], besteffort: bool) -> None:
        names = [queue["name"] for queue in merged]
        jobs = [job for job in self.jobs if queue_of(job) in names and is_besteffort(job) == besteffort]
        line: dict[str, Any] = {"floor": self.now, "head": None}
        reservations = [job for job in jobs if job.get("reservation") is not None]
        others = [job for job in jobs if job.get("reservation") is None]
        reservations.sort(key=arrival)
        sign = {"fifo": 0, "smallest": 1, "largest": -1}[merged[0].get("policy", "fifo")]
        others.sort(key=lambda job: (sign * self.size(job), *arrival(job)))
        for job in reservations + others:
            self.parked.append((job, line))
            self.look_at_newest()

    def look_at_newest(self) -> None:
        """Settle the job that was parked last if possible, then whatever that made possible, first come first."""
        settled = self.try_to_settle(*self.parked[-1])
        while settled:
            settled = any(self.try_to_settle(job, line) for job, line in list(self.parked))

    def try_to_settle(self, job: Job, line: dict[str, Any]) -> bool:
        result = self.consider(job, line)
        if result is None:
            return False
        self.results[job["id"]] = result
        self.parked.remove((job, line))
        return True

    def consider(self, job: Job, line: dict[str, Any]) -> Result | None:
        ready = self.now
        waits = False
        ends = {other["id"]: other["start"] + other["walltime"] for other in self.running}
        for text in job.get("depends_on", []):
            outcome, _, number = str(text).rpartition(":")
            anterior = int(number)
            if anterior in ends:
                ready = max(ready, ends[anterior])
            elif anterior in self.results:
                if self.results[anterior].end is None:
                    return Result("dependency")
                ready = max(ready, self.results[anterior].end)
            elif any(other["id"] == anterior for other in self.jobs):
                waits = True
            elif outcome == "notok":
                return Result("dependency")
        if waits:
            return None
        return self.place(job, line, ready)

    def place(self, job: Job, line: dict[str, Any], ready: int) -> Result | None:
        if job.get("reservation") is not None:
            return self.reserve(job, ready)
        options = list(range(len(job["requests"])))
        begin = ready
        if self.policy == "easy":
            found = self.easy(job, options, ready, line)
        elif self.policy == "first_fit":
            found = None if ready > self.now else self.best_now(job, options)
        elif self.policy == "fcfs":
            begin = max(ready, line["floor"])
            found = self.earliest(job, options, begin)
            if found and ready <= line["floor"]:
                line["floor"] = found[1]
            found = self.rather_idle(job, options, found)
        else:
            found = self.rather_idle(job, options, self.earliest(job, options, ready))
        if found is None and self.may_still_open(job):
            return None
        if found is not None and found[1] == self.now:
            return self.start(job, found)
        verdict = self.why_not_now(job, options, ready, begin, found)
        if found is None:
            return Result(verdict)
        option, start, ids = found
        if self.policy != "easy":
            self.enter(job, option, start, ids)
        return Result(verdict, option, start, start + job["requests"][option]["walltime"], sorted(ids))

    def reserve(self, job: Job, ready: int) -> Result | None:
        walltime = job["requests"][0]["walltime"]
        date = max(self.now, job["reservation"])
        states = {"Alive"} if job["reservation"] <= self.now else {"Alive", "Absent", "Suspected"}
        late = job["reservation"] + walltime <= self.now
        ids = None if late or ready > date else self.fits(job, 0, date, states)
        if ids and date == self.now:
            with self.sparing(job):
                ids = self.fits(job, 0, date, states) or ids
        if not ids and self.may_still_open(job):
            return None
        if ids:
            if date == self.now:
                return self.start(job, (0, date, ids))
            self.enter(job, 0, date, ids)
            return Result("reserved", 0, date, date + walltime, sorted(ids))
        if not late and self.impossible(job, [0], states) == "never":
            return Result("never")
        return Result("reservation")

    def start(self, job: Job, found: tuple[int, int, set[int]]) -> Result:
        option, start, ids = found
        walltime = job["requests"][option]["walltime"]
        victims = {
            other["id"]
            for other in self.running
            if is_besteffort(other)
            and other["start"] <= self.now < other["start"] + other["walltime"]
            and (
                ids & set(other["resources"])
                or any(
                    self.same_block(ident, set(other["resources"]), self.levels_of(job, option), self.levels_of(other))
                    for ident in ids
                )
            )
            and not shares(job, other)
        }
        if self.policy != "easy" or not any(hold.job is job for hold in self.holds):
            self.enter(job, option, start, ids)
        if not is_besteffort(job):
            victims |= self.consumers(option, job, ids, victims | self.kill)
        verdict = "starts"
        if victims and not is_besteffort(job):
            self.kill |= victims
            verdict = "resources_busy"
        return Result(verdict, option, start, start + walltime, sorted(ids))

    def consumers(self, option: int, job: Job, ids: set[int], dying: set[int]) -> set[int]:
        """Best-effort jobs that must go so that nothing is taken twice: dying ones first, then the youngest."""
        candidates = [
            other
            for other in self.running
            if is_besteffort(other) and other["start"] <= self.now < other["start"] + other["walltime"]
        ]
        candidates.sort(key=lambda other: (other["id"] in dying, other["start"], other["id"]))
        left, chosen = list(candidates), set()
        for other in reversed(candidates):
            excessive = [
                (name, block)
                for name in asked(job, option)
                for block in self.blocks(name, ids)
                if sum(self.taken(name, block, hold) for hold in self.holds if self.lasts(hold, self.now))
                + sum(self.taken_by(name, block, one) for one in left)
                > self.consumables[name]["capacity"].get(block, 0)
            ]
            if any(self.taken_by(name, block, other) for name, block in excessive):
                chosen.add(other["id"])
                left.remove(other)
        return chosen

    def blocks(self, name: str, ids: set[int]) -> set[str]:
        level = self.consumables[name]["level"]
        return {str(self.row[ident][level]) for ident in ids if self.row[ident].get(level) is not None}

    def taken(self, name: str, block: str, hold: Hold) -> int:
        return hold.consumes.get(name, 0) if block in self.blocks(name, hold.ids) else 0

    def taken_by(self, name: str, block: str, job: Job) -> int:
        return job.get("consumes", {}).get(name, 0) if block in self.blocks(name, set(job["resources"])) else 0

    def lasts(self, hold: Hold, second: int) -> bool:
        return bool(hold.start <= second < hold.start + hold.walltime + self.security)

    def enough_left(self, job: Job, option: int, ident: int, second: int) -> bool:
        for name, amount in asked(job, option).items():
            for block in self.blocks(name, {ident}):
                holds = self.holds + self.spared[job["id"]]
                used = sum(self.taken(name, block, hold) for hold in holds if self.lasts(hold, second))
                if used + amount > self.consumables[name]["capacity"].get(block, 0):
                    return False
        return True

    def easy(self, job: Job, options: list[int], ready: int, line: dict[str, Any]) -> tuple[int, int, set[int]] | None:
        if ready > self.now:
            return None
        if line["head"] is None:
            found = self.earliest(job, options, self.now)
            if found and found[1] > self.now:
                line["head"] = (job, found[0], found[1])
                self.enter(job, *found)
            return self.rather_idle(job, options, found)
        with self.sparing(job):
            found = self.behind_the_head(job, options, line)
        return found or self.behind_the_head(job, options, line)

    def behind_the_head(self, job: Job, options: list[int], line: dict[str, Any]) -> tuple[int, int, set[int]] | None:
        found = self.best_at(job, options, self.now)
        if found:
            return found
        head, option, date = line["head"]
        before = list(self.holds)
        self.holds = [hold for hold in self.holds if hold.job is not head]
        found = self.best_at(job, options, self.now)
        if found:
            self.enter(job, *found)
            ids = self.allowed(head, option, date)
            if ids:
                self.enter(head, option, date, ids)
                self.results[head["id"]].resources = sorted(ids)
                return found
        self.holds = before
        return None

    # --- who gives way ------------------------------------------------------------------------------------------

    @contextmanager
    def sparing(self, job: Job) -> Iterator[None]:
        """Leave to running best-effort jobs what they hold, if they would have to go for ``job``."""
        if not is_besteffort(job):
            for other in self.running:
                if is_besteffort(other) and other["start"] <= self.now < other["start"] + other["walltime"]:
                    ids = set(other["resources"])
                    self.spared[job["id"]].append(
                        Hold(
                            other,
                            other["start"],
                            other["walltime"],
                            ids,
                            False,
                            other.get("consumes", {}),
                            self.levels_of(other),
                        )
                    )
        yield
        self.spared.clear()

    def rather_idle(
        self, job: Job, options: list[int], found: tuple[int, int, set[int]] | None
    ) -> tuple[int, int, set[int]] | None:
        """Where ``found`` is a start now: one for which nobody goes, if there is one."""
        if found is None or found[1] != self.now:
            return found
        with self.sparing(job):
            return self.best_at(job, options, self.now) or found

    def best_now(self, job: Job, options: list[int]) -> tuple[int, int, set[int]] | None:
        return self.rather_idle(job, options, self.best_at(job, options, self.now))

    # --- where a job fits ---------------------------------------------------------------------------------------

    def enter(self, job: Job, option: int, start: int, ids: set[int]) -> None:
        walltime = job["requests"][option]["walltime"]
        self.holds.append(Hold(job, start, walltime, ids, True, asked(job, option), self.levels_of(job, option)))

    def earliest(self, job: Job, options: list[int], ready: int) -> tuple[int, int, set[int]] | None:
        best = None
        for option in options:
            walltime = job["requests"][option]["walltime"]
            for start in self.instants(job, ready):
                ids = self.allowed(job, option, start)
                if ids:
                    if best is None or start + walltime < best[1] + job["requests"][best[0]]["walltime"]:
                        best = option, start, ids
                    break
        return best

    def best_at(self, job: Job, options: list[int], start: int) -> tuple[int, int, set[int]] | None:
        best = None
        for option in options:
            ids = self.allowed(job, option, start)
            if ids and (best is None or job["requests"][option]["walltime"] < job["requests"][best[0]]["walltime"]):
                best = option, start, ids
        return best

    def allowed(self, job: Job, option: int, start: int) -> set[int]:
        """What the job would take at ``start``, empty when it does not fit or a quota forbids it."""
        ids = self.fits(job, option, start, {"Alive"})
        return ids if ids and self.quota_holds(job, option, start, ids) else set()

    def fits(self, job: Job, option: int, start: int, states: set[str]) -> set[int]:
        end = start + job["requests"][option]["walltime"] + self.security
        free = {
            ident
            for ident in self.row
            if all(
                self.free_at(job, option, ident, second) and self.enough_left(job, option, ident, second)
                for second in range(start, end)
            )
        }
        ids = self.match(job, option, free, states)
        if states != {"Alive"} and ids and not self.quota_holds(job, option, start, ids):
            return set()
        if job.get("reservation") is not None and ids and not self.quota_holds(job, option, start, ids):
            return set()
        return ids

    def gives(self, name: str, amount: int, ident: int) -> bool:
        """Whether a resource could ever give an amount: of a level that is exclusive, only cores in a block have it."""
        blocks = self.blocks(name, {ident})
        apart = level_name(self.consumables[name]["level"]) in self.exclusive and not blocks
        if apart and self.row[ident].get("type", "default") == "default":
            return False
        return all(self.consumables[name]["capacity"].get(block, 0) >= amount for block in blocks)

    def levels_of(self, job: Job, option: int | None = None) -> list[tuple[str, bool]]:
        """The exclusive levels that an alternative, or a running job, asks for, and whether it shares their blocks."""
        if option is None:
            named, amounts = set(map(level_name, job.get("levels", []))), job.get("consumes", {})
        else:
            named = {level for levels, _ in self.masks(job, option) or [] for level, _ in levels}
            amounts = asked(job, option)
        shared = {level_name(self.consumables[name]["level"]) for name in amounts if name in self.consumables}
        return [(name, name in shared) for name in self.exclusive if name in named | shared]

    def same_block(
        self, ident: int, ids: set[int], mine: list[tuple[str, bool]], theirs: list[tuple[str, bool]]
    ) -> bool:
        def value(one: int, level: str) -> Any:
            return one if level == "resource_id" else self.row[one].get(level)

        return any(
            value(ident, level) is not None and any(value(ident, level) == value(other, level) for other in ids)
            for level, shared in mine
            if any(level == other and not (shared and divided) for other, divided in theirs)
        )

    def around(self, job: Job) -> set[str | None]:
        """The containers that a job lies in, one in the other."""
        found: set[str | None] = set()
        names = {inside(job)} - {None}
        while names:
            found |= names
            names = {inside(hold.job) for hold in self.holds if not found.isdisjoint(opens(hold.job))} - {None, *found}
        return found

    def free_at(self, job: Job, option: int, ident: int, second: int) -> bool:
        mine = self.levels_of(job, option)
        for hold in self.spared[job["id"]]:
            if (ident in hold.ids or self.same_block(ident, hold.ids, mine, hold.levels)) and not shares(job, hold.job):
                return False
        for hold in self.holds:
            may_share = shares(job, hold.job) or not self.around(job).isdisjoint(opens(hold.job))
            if self.lasts(hold, second) and not may_share and self.same_block(ident, hold.ids, mine, hold.levels):
                return False
        name = inside(job)
        if name is not None and not any(
            name in opens(hold.job) and ident in hold.ids and hold.start <= second < hold.start + hold.walltime
            for hold in self.holds
        ):
            return False
        for hold in self.holds:
            if ident in hold.ids and hold.start <= second < hold.start + hold.walltime + self.security:
                same_space = inside(hold.job) == name or (name is None and not hold.waiting)
                if same_space and not shares(job, hold.job):
                    return False
        return True

    # --- requests -----------------------------------------------------------------------------------------------

    def masks(self, job: Job, option: int) -> list[tuple[list[tuple[str, str]], list[int]]] | None:
        """The levels and the resources of each group, None when a filter names a property that nobody has."""
        found = []
        for group in job["requests"][option]["resources"].partition(",")[0].split("+"):
            text = ""
            if group.startswith("{"):
                text, _, group = group[1:].partition("}")
            both = [job.get("properties", ""), text]
            ids = [row["id"] for row in self.rows if all(FILTERS[part](row) for part in both)]
            if not any("type" in part for part in both):
                ids = [ident for ident in ids if self.row[ident].get("type", "default") == "default"]
            if any("gpu" in part for part in both) and not any("gpu" in row for row in self.rows):
                return None
            for name, amount in asked(job, option).items():
                ids = [ident for ident in ids if self.gives(name, amount, ident)]
            levels = [tuple(part.split("=")) for part in group.strip("/").split("/")]
            found.append(([(level_name(name), count) for name, count in levels], ids))
        return found

    def match(self, job: Job, option: int, free: set[int], states: set[str]) -> set[int]:
        groups = []
        masks = self.masks(job, option)
        if masks is None:
            return set()
        for levels, ids in masks:
            if self.levels is not None and any(
                name not in (*self.levels, "network_address", "resource_id") for name, _ in levels
            ):
                return set()
            groups.append((levels, [ident for ident in ids if self.row[ident].get("state", "Alive") in states]))
        if "exclusive" not in job.get("types", []):
            return self.serve(groups, free)
        usable = {ident for ident in self.row if self.row[ident].get("state", "Alive") in states}
        for name, amount in asked(job, option).items():
            usable = {ident for ident in usable if self.gives(name, amount, ident)}
        groups = [(levels, [ident for ident in ids if self.node(ident) <= usable]) for levels, ids in groups]
        taken = self.serve(groups, {ident for ident in free if self.node(ident) <= free})
        return set().union(*map(self.node, taken))

    def node(self, ident: int) -> set[int]:
        """What is on the node of a resource and not Dead; a resource on no node is alone."""
        name = self.row[ident].get("network_address")
        there = {ident} if name is None else {i for i, row in self.row.items() if row.get("network_address") == name}
        return {i for i in there if self.row[i].get("state", "Alive") != "Dead"}

    def serve(self, groups: list[Any], free: set[int]) -> set[int]:
        if taken := self.in_order(groups, free, False):
            return taken
        if len(groups) > 1:
            for order in permutations(groups):
                for frugal in (False, True):
                    if taken := self.in_order(list(order), free, frugal):
                        return taken
            for rank, order in enumerate(permutations(groups)):
                if rank < 8 and (taken := self.from_other_blocks(list(order), free, [32])):
                    return taken
        return set()

    def from_other_blocks(self, groups: list[Any], free: set[int], left: list[int]) -> set[int]:
        (levels, ids), *others = groups
        name, count = levels[0]
        choices: list[set[int]] = [set()]
        for without in choices:
            if not left[0]:
                break
            left[0] -= 1
            part = self.tree(levels, ids, free - without)
            rest = self.from_other_blocks(others, free - part, left) if part and others else part
            if rest:
                return part | rest
            if count == "ALL":
                continue
            for value in dict.fromkeys(ident if name == "resource_id" else self.row[ident].get(name) for ident in ids):
                block = {i for i in ids if value == (i if name == "resource_id" else self.row[i].get(name))}
                if value is not None and block & part and without | block not in choices:
                    choices.append(without | block)
        return set()

    def in_order(self, groups: list[Any], free: set[int], frugal: bool) -> set[int]:
        taken: set[int] = set()
        for rank, (levels, ids) in enumerate(groups):
            part: set[int] = set()
            if frugal:
                wanted = {ident for _, others in groups[rank + 1 :] for ident in others}
                part = self.tree(levels, ids, free - taken - wanted)
            part = part or self.tree(levels, ids, free - taken)
            if not part:
                return set()
            taken |= part
        return taken

    def tree(self, levels: list[tuple[str, str]], ids: list[int], free: set[int]) -> set[int]:
        (name, count), below = levels[0], levels[1:]
        blocks: dict[Any, list[int]] = {}
        for ident in ids:
            value = ident if name == "resource_id" else self.row[ident].get(name)
            if value is not None:
                blocks.setdefault(value, []).append(ident)
        good = []
        for block in blocks.values():
            part = self.tree(below, block, free) if below else (set(block) if set(block) <= free else set())
            if part:
                good.append(part)
            elif count == "ALL":
                return set()
        if not good:
            return set()
        if count == "BESTHALF":
            good = good[: max(1, len(good) // 2)]
        elif count not in ("ALL", "BEST"):
            if len(good) < int(count):
                return set()
            good = good[: int(count)]
        return set().union(*good)

    def size(self, job: Job) -> int:
        for states in ({"Alive"}, {"Alive", "Absent", "Suspected"}):
            if ids := self.match(job, 0, set(self.row), states):
                return len(ids)
        return 0

    # --- quotas -------------------------------------------------------------------------------------------------

    def quota_holds(self, job: Job, option: int, start: int, ids: set[int]) -> bool:
        walltime = job["requests"][option]["walltime"]
        if not self.counted(ids):
            return True
        return self.budgets_hold(job, walltime, start, ids) and all(
            self.quota_holds_at(job, walltime, ids, second) for second in range(start, start + walltime + self.security)
        )

    def budgets_hold(self, job: Job, walltime: int, start: int, ids: set[int]) -> bool:
        """Count, second by second, what all jobs take of each project that the job is billed to."""
        if exempt(job) or is_besteffort(job):
            return True
        mine = Hold(job, start, walltime, ids, True)
        holds = [*(hold for hold in self.holds if not exempt(hold.job) and not is_besteffort(hold.job)), mine]
        for project in self.payers(job):
            if start >= project.get("until", math.inf):
                return False
            if "hours" not in project:
                continue
            begins = project.get("begins", [-math.inf])
            taken = dict(enumerate(project.get("used", [])))
            touched = set()
            for hold in holds:
                if project in self.payers(hold.job):
                    rate = self.counted(hold.ids) * self.projects[hold.job.get("project", "default")].get("weight", 1)
                    for second in range(hold.start, hold.start + hold.walltime):
                        if second >= begins[0]:
                            place = max(place for place, begin in enumerate(begins) if begin <= second)
                            taken[place] = taken.get(place, 0) + rate / 3600
                            touched |= {place} if hold is mine and rate else set()
            if any(taken[place] > project["hours"] + 1e-5 for place in touched):
                return False
        return True

    def payers(self, job: Job) -> list[dict[str, Any]]:
        """The projects that a job is billed to: its own and all above."""
        found, name = [], job.get("project", "default")
        while name in self.projects:
            found.append(self.projects[name])
            name = self.projects[name].get("parent", "")
        return found

    def quota_holds_at(self, job: Job, walltime: int, ids: set[int], second: int) -> bool:
        return all(self.rule_holds_at(rule, job, walltime, ids, second) for rule in self.rules(job, second))

    def rule_holds_at(self, rule: dict[str, Any], job: Job, walltime: int, ids: set[int], second: int) -> bool:
        kinds = job.get("types", []) if rule["type"] == "/" else [rule["type"]]
        for kind in kinds:
            holds = [
                hold
                for hold in self.holds
                if hold.start <= second < hold.start + hold.walltime + self.security
                and not exempt(hold.job)
                and self.counted(hold.ids)
                and same_key(rule, kind, job, hold.job)
            ]
            sums = [(self.counted(hold.ids), hold.walltime) for hold in holds] + [(self.counted(ids), walltime)]
            amounts = {
                "resources": sum(count for count, _ in sums),
                "jobs": len(sums),
                "resource_hours": sum(count * length for count, length in sums) / 3600,
            }
            if any(0 <= rule[name] < amount for name, amount in amounts.items()):
                return False
        return True

    def counted(self, ids: set[int]) -> int:
        return sum(1 for ident in ids if self.row[ident].get("type", "default") == "default")

    def rules(self, job: Job, second: int) -> list[dict[str, Any]]:
        """The rules that apply to a job: of each set the most specific one."""
        if exempt(job):
            return []
        matching = [rule for rule in self.quotas if matches(rule, job) and valid(rule, second)]
        rank = {"*": 2, "/": 1}
        matching.sort(key=lambda rule: rule.get("valid") is None)
        matching.sort(key=lambda rule: [rank.get(rule[name], 0) for name in ("queue", "project", "type", "user")])
        names = dict.fromkeys(rule.get("set", "default") for rule in self.quotas)
        first = ([rule for rule in matching if rule.get("set", "default") == name][:1] for name in names)
        return [rule for some in first for rule in some]

    def limited(self, job: Job) -> bool:
        pays = not is_besteffort(job) and any({"hours", "until"} & project.keys() for project in self.payers(job))
        return not exempt(job) and (pays or any(matches(rule, job) for rule in self.quotas))

    # --- verdicts -----------------------------------------------------------------------------------------------

    def may_still_open(self, job: Job) -> bool:
        return inside(job) is not None and any(
            inside(job) in opens(other) and other["id"] not in self.results for other in self.jobs
        )

    def why_not_now(
        self, job: Job, options: list[int], ready: int, begin: int, found: tuple[int, int, set[int]] | None
    ) -> str:
        if ready > self.now:
            return self.oversized(job, options, {"Alive"}) or "dependency"
        entered = [hold for hold in self.holds if hold.job is not job]
        now_holds, self.holds = self.holds, entered
        try:
            looked = options if found is None else [found[0]]
            if found is None:
                dates = self.instants(job, begin)
                if not any(self.fits(job, option, date, {"Alive"}) for option in options for date in dates):
                    reason = self.impossible(job, options, {"Alive"})
                    if reason:
                        return reason
                elif self.limited(job):
                    return "quota"
            elif self.limited(job) and begin == self.now and self.fits(job, found[0], self.now, {"Alive"}):
                return "quota"
            self.holds = self.baseline
            resources = [option for option in looked if self.fits(job, option, self.now, {"Alive"})]
            if any(self.allowed(job, option, self.now) for option in resources):
                return "behind_higher_priority"
            return "quota" if resources and self.limited(job) else "resources_busy"
        finally:
            self.holds = now_holds

    def instants(self, job: Job, begin: int) -> list[int]:
        """When a job may start: at once, or when something else begins or ends, or another rule applies to it."""
        found = {begin}
        for hold in self.holds:
            end = hold.start + hold.walltime
            found |= {hold.start, end + self.security}
            if inside(job) in opens(hold.job):
                found.add(end)
        if any("hours" in project for project in self.payers(job)):  # any second may be the first with enough left
            found |= set(range(begin, max([begin, *found, *self.last_begins()]) + 1))
        for rule in self.quotas:
            for span in rule.get("valid") or ():
                found |= {date for date in span if self.rules(job, date) != self.rules(job, date - 1)}
        return sorted(instant for instant in found if instant >= begin)

    def last_begins(self) -> list[int]:
        """When the last period of each project begins."""
        return [project["begins"][-1] for project in self.projects.values() if "begins" in project]

    def oversized(self, job: Job, options: list[int], states: set[str]) -> str:
        if any(self.match(job, option, set(self.row), states) for option in options):
            return ""
        if any(self.match(job, option, set(self.row), {"Alive", "Absent", "Suspected"}) for option in options):
            return "resources_down"
        return "never"

    def impossible(self, job: Job, options: list[int], states: set[str]) -> str:
        if oversized := self.oversized(job, options, states):
            return oversized
        name = inside(job)
        if name is None:
            return ""
        empty = any(
            self.match(job, option, self.inside_for(name, start, job["requests"][option]["walltime"]), states)
            for option in options
            for start in self.instants(job, self.now)
        )
        return "resources_busy" if empty else "never"

    def inside_for(self, name: str, start: int, walltime: int) -> set[int]:
        """The resources that lie in the pieces of a container all the time, whoever else is in there."""
        pieces = [hold for hold in self.holds if name in opens(hold.job)]
        return {
            ident
            for ident in self.row
            if all(
                any(ident in hold.ids and hold.start <= second < hold.start + hold.walltime for hold in pieces)
                for second in range(start, start + walltime + self.security)
            )
        }
