"""The rules of negotiated applications, written a second time as they read: slow, with fractions and lists of spans.

Nothing of the scheduler or of the launchers is used. What is occupied is a list of spans, each with a begin, an end and
hosts by cluster; whatever is asked about it is computed from all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import count, pairwise
from typing import Any, NamedTuple

Json = dict[str, Any]
Steps = list[tuple[Fraction, int]]
"""Where busy hosts change, with how many there are from there on; the first is the instant of looking."""


class Span(NamedTuple):
    """Hosts that are occupied within [begin, end)."""

    begin: Fraction
    end: Fraction
    hosts: dict[str, int]


class NaiveApplication:
    """An application and all that is known of it."""

    def __init__(self, entry: Json, file: Json) -> None:
        self.entry = entry
        self.id: int = entry["id"]
        self.clusters: list[str] = entry.get("clusters", list(file["clusters"]))
        self.state = ""
        self.rank: tuple[Fraction, int] | None = None
        self.hosts: dict[str, int] = {}
        self.walltime = Fraction(0)
        self.tag = 0
        self.start: Fraction | None = None
        self.ends: tuple[Fraction, str] | None = None
        self.serial = 0
        self.sent: dict[str, Steps] = {}
        self.views: list[tuple[Fraction, int, dict[str, Steps]]] = []
        self.script = list(entry.get("script", ()))
        self.told: tuple[int, Fraction] | None = None
        self.configurations: set[Any] = set()

    @property
    def answers(self) -> bool:
        return "script" not in self.entry


class NaiveGhost:
    """Freed hosts."""

    def __init__(self, of: NaiveApplication, hosts: dict[str, int], made: Fraction, until: Fraction) -> None:
        self.of, self.hosts, self.made, self.until = of, dict(hosts), made, until
        self.new = True
        self.shown: set[int] = set()
        self.owing: dict[int, int] = {}


class Naive:
    """A run of a file, whose numbers are fractions."""

    def __init__(self, file: Json) -> None:
        self.file = file
        self.sizes: dict[str, int] = {cid: cluster["hosts"] for cid, cluster in file["clusters"].items()}
        self.speeds = {cid: Fraction(cluster.get("speed", 1)) for cid, cluster in file["clusters"].items()}
        self.fair_start = Fraction(file.get("fair_start", 5))
        self.timer = Fraction(file.get("timer", 1))
        self.security = Fraction(file.get("security", 0))
        self.needed = file.get("ghosts", "needed") == "needed"
        self.by_request = file.get("rank", "first-request") == "first-request"
        self.most = file.get("most", 200)
        self.latency = {frozenset((a, b)): Fraction(s) for a, b, s in file.get("latency", ())}
        self.apps = {entry["id"]: NaiveApplication(entry, file) for entry in sorted(file["applications"], key=_id)}
        self.ghosts: list[NaiveGhost] = []
        self.last: list[Span] = []
        self.last_pass: Fraction | None = None
        self.noted: list[Fraction] = []
        self.lines: list[Json] = []
        self.bytes = self.passes = 0
        self.waste = Fraction(0)
        self.now = Fraction(0)

    # time

    def run(self) -> list[Json]:
        """Run to the end; return the lines, the totals as the last."""
        while True:
            instants = [self.due_of(app) for app in self.apps.values()] + [self.pass_due()]
            known = [instant for instant in instants if instant is not None]
            if not known:
                break
            self.now = min(known)
            for app in self.apps.values():
                while self.due_of(app) == self.now:
                    self.act(app)
            if self.pass_due() == self.now:
                self.do_pass()
        configurations = {str(e["id"]): len(self.apps[e["id"]].configurations) for e in self.file["applications"]}
        totals = {
            "bytes": self.bytes,
            "waste": self.waste,
            "passes": self.passes,
            "unique_configurations": sum(configurations.values()),
            "configurations": configurations,
        }
        return [*self.lines, {"totals": totals}]

    def due_of(self, app: NaiveApplication) -> Fraction | None:
        """When an application does the next thing."""
        if not app.state:
            return Fraction(app.entry["arrives"])
        instants = []
        if app.script:
            instants.append(Fraction(app.entry["arrives"]) + Fraction(app.script[0][0]))
        if app.views:
            instants.append(app.views[0][0])
        if app.ends is not None:
            instants.append(app.ends[0])
        return min(instants, default=None)

    def act(self, app: NaiveApplication) -> None:
        """Have an application do the next thing that is due now."""
        if not app.state:
            self.subscribe(app)
        elif app.script and Fraction(app.entry["arrives"]) + Fraction(app.script[0][0]) == self.now:
            _, hosts, walltime = app.script.pop(0)
            if app.state in ("Submitted", "RequestSent", "Waiting"):
                self.request(app, hosts, Fraction(walltime), None)
            else:
                self.say(app, message="refused", of="request", code=1)
        elif app.views and app.views[0][0] == self.now:
            _, serial, view = app.views.pop(0)
            if app.state in ("Submitted", "RequestSent", "Waiting"):
                self.answer(app, serial, view)
        else:
            self.end(app)

    def say(self, app: NaiveApplication, **fields: Any) -> None:
        self.lines.append({"t": self.now, "app": app.id, **fields})

    def become(self, app: NaiveApplication, state: str) -> None:
        if app.state != state:
            app.state = state
            self.say(app, state=state)

    # what applications send

    def subscribe(self, app: NaiveApplication) -> None:
        self.say(app, message="subscribe")
        if not self.by_request:
            app.rank = self.now, app.id
        self.become(app, "Submitted")
        self.send_view(app, {cid: self.steps(self.last, cid) for cid in app.clusters})

    def request(self, app: NaiveApplication, hosts: dict[str, int], walltime: Fraction, serial: int | None) -> None:
        app.tag += 1
        app.hosts, app.walltime = dict(hosts), walltime
        fields: Json = {"tag": app.tag, "hosts": app.hosts, "walltime": walltime}
        if serial is not None:
            fields["serial"] = serial
        self.say(app, message="request", **fields)
        self.bytes += 4 + 5 * len(hosts)
        app.rank = app.rank or (self.now, app.id)
        self.settle(app, serial or 0)
        self.noted.append(self.now)
        self.become(app, "RequestSent")

    def settle(self, app: NaiveApplication, serial: int) -> bool:
        owed = False
        for ghost in self.ghosts:
            if app.id in ghost.owing and ghost.owing[app.id] <= serial:
                del ghost.owing[app.id]
                owed = True
        return owed

    def end(self, app: NaiveApplication) -> None:
        assert app.ends is not None
        reason, app.ends = app.ends[1], None
        if reason == "done":
            self.say(app, message="done")
        self.become(app, "FinishSent")
        self.say(app, message="ended", reason=reason)
        self.noted.append(self.now)

    # views

    def busy(self, spans: list[Span], cid: str, instant: Fraction) -> int:
        total = sum(span.hosts.get(cid, 0) for span in spans if span.begin <= instant < span.end)
        return min(self.sizes[cid], total)

    def steps(self, spans: list[Span], cid: str) -> Steps:
        """What is busy from now on."""
        marks = {self.now} | {mark for span in spans for mark in span[:2] if mark > self.now}
        return _merged([(mark, self.busy(spans, cid, mark)) for mark in sorted(marks)])

    def send_view(self, app: NaiveApplication, changes: dict[str, Steps]) -> None:
        app.serial += 1
        app.sent = app.sent | changes
        profiles = {cid: _profile(steps) for cid, steps in changes.items()}
        self.say(app, message="changeNotify", serial=app.serial, changes=profiles)
        self.bytes += sum(1 + 8 * (len(profile) // 2) for profile in profiles.values())
        if app.answers:
            delay = Fraction(app.entry.get("delay", 0))
            app.views.append((self.now + delay, app.serial, dict(app.sent)))

    # passes

    def pass_due(self) -> Fraction | None:
        events = self.noted + [ghost.until for ghost in self.ghosts]
        events += [app.start for app in self.apps.values() if app.state == "Waiting" and app.start is not None]
        if self.last_pass is None:
            return min(events, default=None)
        later = [event for event in events if event > self.last_pass] + self.noted
        return max(min(later), self.last_pass + self.timer) if later else None

    def do_pass(self) -> None:
        """Do the six steps of a pass."""
        now = self.now
        self.passes += 1
        self.noted = []
        asking = [app for app in self.apps.values() if app.state in ("RequestSent", "Waiting")]
        line = sorted(asking, key=lambda app: app.rank or ())[: self.most]
        self.renew_ghosts(line)
        spans = [self.place_of(app) for app in self.apps.values() if app.state == "Started"]
        unseen = sorted(self.ghosts, key=lambda ghost: (ghost.made, ghost.of.id))
        if not self.needed:
            spans += [Span(now, ghost.until, ghost.hosts) for ghost in unseen]
            unseen = []
        views: dict[int, list[Span]] = {}
        for app in line:
            for ghost in list(unseen):
                if app.id in (ghost.shown if ghost.new else ghost.owing):
                    spans.append(Span(now, ghost.until, dict(ghost.hosts)))
                    unseen.remove(ghost)
            views[app.id] = list(spans)
            app.start = self.first_place(spans, app)
            spans.append(self.place_of(app))
            self.become(app, "Waiting")
            if app.start == now:
                self.give_way(unseen, [*line[: line.index(app) + 1]])
        self.start_and_tell(line, views)
        self.last = spans + [Span(now, ghost.until, dict(ghost.hosts)) for ghost in unseen]
        self.last_pass = now
        for ghost in self.ghosts:
            ghost.new = False
            waiting = [app.id for app in line if app.state == "Waiting"]
            ghost.owing = {one: serial for one, serial in ghost.owing.items() if one in waiting}
            if self.needed and not ghost.owing:
                self.noted = [now]

    def start_and_tell(self, line: list[NaiveApplication], views: dict[int, list[Span]]) -> None:
        for app in line:
            if app.start == self.now:
                self.become(app, "Started")
                self.say(app, message="startNotify", tag=app.tag, hosts=app.hosts)
                self.plan_end(app)
        for rank, app in enumerate(line):
            if app.state == "Waiting":
                behind = [self.place_of(one) for one in line[rank + 1 :] if one.state == "Started"]
                self.tell(app, views[app.id] + behind)

    def renew_ghosts(self, line: list[NaiveApplication]) -> None:
        for app in self.apps.values():
            if app.state == "FinishSent":
                self.become(app, "Ghost")
                self.make_ghost(app, line)
        for ghost in sorted(self.ghosts, key=lambda ghost: ghost.of.id):
            unwanted = self.needed and not (ghost.shown if ghost.new else ghost.owing)
            if ghost.until <= self.now or unwanted:
                self.become(ghost.of, "Finished")
                self.waste += sum(ghost.hosts.values()) * (self.now - ghost.made)
                self.ghosts.remove(ghost)

    def make_ghost(self, app: NaiveApplication, line: list[NaiveApplication]) -> None:
        assert app.start is not None
        until = self.now + self.fair_start
        if self.needed:
            until = min(until, self.place_of(app).end)
        ghost = NaiveGhost(app, app.hosts, self.now, until)
        for one in line:
            if one.answers and set(one.clusters) & set(app.hosts):
                ghost.shown.add(one.id)
        self.ghosts.append(ghost)

    def place_of(self, app: NaiveApplication) -> Span:
        assert app.start is not None
        return Span(app.start, app.start + app.walltime + self.security, app.hosts)

    def first_place(self, spans: list[Span], app: NaiveApplication) -> Fraction:
        length = app.walltime + self.security
        marks = sorted({self.now} | {mark for span in spans for mark in span[:2] if mark > self.now})
        for start in marks:
            within = [start] + [mark for mark in marks if start < mark < start + length]
            if all(
                self.busy(spans, cid, mark) + number <= self.sizes[cid]
                for cid, number in app.hosts.items()
                for mark in within
            ):
                return start
        raise AssertionError("everything is free in the end")

    def give_way(self, unseen: list[NaiveGhost], placed: list[NaiveApplication]) -> None:
        has = [app for app in self.apps.values() if app.state == "Started"]
        has += [app for app in placed if app.start == self.now]
        for ghost in unseen:
            for cid in list(ghost.hosts):
                started = sum(app.hosts.get(cid, 0) for app in has)
                others = sum(one.hosts.get(cid, 0) for one in self.ghosts if one is not ghost)
                left = max(0, min(ghost.hosts[cid], self.sizes[cid] - started - others))
                self.waste += (ghost.hosts[cid] - left) * (self.now - ghost.made)
                ghost.hosts[cid] = left

    def tell(self, app: NaiveApplication, spans: list[Span]) -> None:
        changes = {}
        for cid in app.clusters:
            steps = self.steps(spans, cid)
            if steps != _from(app.sent[cid], self.now):
                changes[cid] = steps
        if changes:
            self.send_view(app, changes)
            for ghost in self.ghosts:
                holds = any(ghost.hosts.get(cid, 0) for cid in changes)
                if self.needed and ghost.new and app.id in ghost.shown and holds:
                    ghost.owing[app.id] = app.serial
        assert app.start is not None
        if app.told != (app.tag, app.start):
            app.told = app.tag, app.start
            self.say(app, message="estimate", tag=app.tag, start=app.start)

    def plan_end(self, app: NaiveApplication) -> None:
        lasts = app.entry.get("lasts")
        if lasts is None:
            lasts = app.walltime if not app.answers else self.run_time(app, app.hosts)
        if lasts > app.walltime:
            app.ends = self.now + app.walltime, "walltime"
        else:
            app.ends = self.now + Fraction(lasts), "done"

    # launchers

    def run_time(self, app: NaiveApplication, hosts: dict[str, int]) -> Fraction:
        entry = app.entry
        if "complex" in entry:
            asked = entry["complex"]
            far = [self.latency.get(frozenset((a, b)), Fraction(0)) for a in hosts for b in hosts if a != b]
            power = sum(n * self.speeds[cid] for cid, n in hosts.items())
            return Fraction(asked["work"]) / power + Fraction(asked["iterations"]) * max(far, default=Fraction(0))
        ((cid, n),) = hosts.items()
        if "rigid" in entry:
            return Fraction(entry["rigid"]["duration"]) / self.speeds[cid]
        asked = entry["moldable"]
        part = Fraction(asked["P"])
        return (1 - part + part / n) * Fraction(asked["single"]) / self.speeds[cid]

    def answer(self, app: NaiveApplication, serial: int, view: dict[str, Steps]) -> None:
        seen = {cid: _from(steps, self.now) for cid, steps in view.items()}
        choice = self.complex_choice(app, seen) if "complex" in app.entry else self.moldable_choice(app, seen)
        if choice is None or (app.tag and choice == (app.hosts, app.walltime)):
            self.say(app, message="keep", serial=serial)
            if self.settle(app, serial):
                self.noted.append(self.now)
        else:
            self.request(app, *choice, serial)

    def moldable_choice(self, app: NaiveApplication, view: dict[str, Steps]) -> tuple[dict[str, int], Fraction] | None:
        kind = "rigid" if "rigid" in app.entry else "moldable"
        asked = app.entry[kind]
        least, most = (asked["hosts"],) * 2 if kind == "rigid" else (asked["min"], asked["max"])
        margin = Fraction(asked.get("margin", 1))
        best: Fraction | None = None
        choice = None
        pairs = [(mark, place) for place, cid in enumerate(app.clusters) for mark, _ in view[cid]]
        for mark, place in sorted(pairs):
            if best is not None and best < mark:
                break
            cid = app.clusters[place]
            n = min(most, self.sizes[cid] - _busy(view[cid], mark))
            while n >= least:
                app.configurations.add((cid, n))
                walltime = self.run_time(app, {cid: n}) * margin
                n2 = self.sizes[cid] - _max_busy(view[cid], mark, mark + walltime)
                if n2 < n:
                    n = n2
                    continue
                if best is None or mark + walltime < best:
                    best, choice = mark + walltime, ({cid: n}, walltime)
                break
        return choice

    def complex_choice(self, app: NaiveApplication, view: dict[str, Steps]) -> tuple[dict[str, int], Fraction] | None:
        margin = Fraction(app.entry["complex"].get("margin", 1))
        best: Fraction | None = None
        choice = None
        for mark in sorted({mark for cid in app.clusters for mark, _ in view[cid]}):
            if best is not None and best < mark:
                break
            free = {cid: self.sizes[cid] - _busy(view[cid], mark) for cid in app.clusters}
            while any(number > 0 for number in free.values()):
                app.configurations.add(tuple(free[cid] for cid in app.clusters))
                hosts = min(_sets(free), key=lambda hosts: self.run_time(app, hosts))
                walltime = self.run_time(app, hosts) * margin
                changed = False
                for cid in hosts:
                    n2 = self.sizes[cid] - _max_busy(view[cid], mark, mark + walltime)
                    if n2 < free[cid]:
                        free[cid], changed = n2, True
                if not changed:
                    if best is None or mark + walltime < best:
                        best, choice = mark + walltime, (hosts, walltime)
                    break
        return choice


def _id(entry: Json) -> int:
    number: int = entry["id"]
    return number


def _sets(free: dict[str, int]) -> Iterator[dict[str, int]]:
    """All sets of clusters with free hosts, in the order of binary counting."""
    clusters = list(free)
    for number in count(1):
        if number >> len(clusters):
            return
        chosen = [cid for place, cid in enumerate(clusters) if number >> place & 1]
        if all(free[cid] > 0 for cid in chosen):
            yield {cid: free[cid] for cid in chosen}


def _merged(steps: Steps) -> Steps:
    return [step for place, step in enumerate(steps) if place == 0 or steps[place - 1][1] != step[1]]


def _from(steps: Steps, now: Fraction) -> Steps:
    """The same steps, looked at later."""
    return [(now, _busy(steps, now)), *((mark, busy) for mark, busy in steps if mark > now)]


def _busy(steps: Steps, instant: Fraction) -> int:
    return [busy for mark, busy in steps if mark <= instant][-1]


def _max_busy(steps: Steps, begin: Fraction, end: Fraction) -> int:
    return max(_busy(steps, begin), *(busy for mark, busy in steps if begin <= mark < end), 0)


def _profile(steps: Steps) -> list[Fraction | int]:
    """The flat list of a profile."""
    flat: list[Fraction | int] = [steps[0][0]]
    for (begin, busy), (end, _) in pairwise(steps):
        flat += [end - begin, busy]
    return flat
