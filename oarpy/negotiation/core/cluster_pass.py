"""A pass over a cluster of real hosts on which applications negotiate: they have their turns among the other jobs.

::

    turns of the planner     job 1    application 2    job 3    application 4
    Gantt                    place    view, place      place    view, place
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import inf, nextafter
from operator import or_

from oarpy.model.reasons import Reason, Why
from oarpy.model.states import NegotiationState
from oarpy.negotiation.core.applications import Application, ApplicationView, CountedRequest, NegotiationRules
from oarpy.negotiation.core.batch_pass import is_served_later, place_batch_jobs
from oarpy.negotiation.core.cluster_views import ClusterViews, GanttLook, Held
from oarpy.negotiation.core.events import Event
from oarpy.negotiation.core.ghosts import Ghost
from oarpy.negotiation.core.line import KeptHosts, Line, NegotiatingJob
from oarpy.negotiation.core.service import Service
from oarpy.negotiation.free_groups import FreeGroups
from oarpy.negotiation.profiles import BusyHosts, Time
from oarpy.scheduler.decide import Decisions
from oarpy.scheduler.gantt.gantt import bits_held
from oarpy.scheduler.job_roles import EXCLUSIVE, roles_of
from oarpy.scheduler.order.queue_orders import Order
from oarpy.scheduler.passes.planner import Decision, Planner
from oarpy.scheduler.passes.turns import Turn
from oarpy.scheduler.plan import Plan, placement_of
from oarpy.scheduler.precedence import LOWEST, Precedence
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.snapshot import Snapshot, WaitingJob
from oarpy.scheduler.verdicts import Verdict

SOON = 1
"""The least time in seconds until the estimated start of an application that waits only for best-effort jobs to go."""


@dataclass(frozen=True, slots=True)
class Negotiated:
    """The outcome of a pass for applications: their events, and the hosts kept back after it."""

    events: tuple[Event, ...] = ()
    ghosts: tuple[KeptHosts, ...] = ()

    @property
    def dates(self) -> tuple[float, ...]:
        """Return the instants at which hosts are kept back no longer."""
        return tuple(ghost.latest_end for ghost in self.ghosts)


_NOTHING = Negotiated()


@dataclass(frozen=True, slots=True)
class Negotiation(Line):
    """A line as the step of a pass that places the jobs that wait."""

    def place(
        self, snapshot: Snapshot, orders: Mapping[str, Order], matchers: Matchers | None
    ) -> tuple[Plan, Negotiated]:
        """Place every waiting job, applications by their requests; return also the events of applications."""
        if not self.telling:
            return place_batch_jobs(self, snapshot, orders, matchers), Negotiated(ghosts=self.ghosts)
        return _negotiate(self, snapshot, orders, matchers)


def negotiation_of(snapshot: Snapshot) -> Negotiation | None:
    """Return the negotiation of a pass, None if no application is in line."""
    return snapshot.step if isinstance(snapshot.step, Negotiation) else None


def negotiated_by(decided: Decisions) -> Negotiated:
    """Return the outcome of a pass for applications."""
    return decided.outcome if isinstance(decided.outcome, Negotiated) else _NOTHING


def _negotiate(
    line: Line, snapshot: Snapshot, orders: Mapping[str, Order], matchers: Matchers | None
) -> tuple[Plan, Negotiated]:
    planner = Planner(snapshot, orders, matchers)
    applications = {entry.id: _application(entry) for entry in line.line}
    rules = NegotiationRules(fair_start=line.fair_start, security=snapshot.security_time, ghosts=line.rule)
    kept = _Ghosts(snapshot, line, rules)
    gantt = _GanttOccupation(planner, snapshot, line, kept)
    service = Service(gantt, kept.ghosts, rules, snapshot.now)
    beyond = Reason(Why.LIMIT_OF_APPLICATIONS, count=len(line.line))
    for turn in planner.turns():
        application, job = applications.get(turn.job.id), turn.job
        gantt.turn = turn
        if application is not None and not turn.again:
            service.turn(application)
        elif application is not None:  # it had its view, and waited for a job behind it
            application.start = gantt.place(application)
        elif is_served_later(job):
            planner.settle(job, Decision(Verdict.BEHIND_HIGHER_PRIORITY, beyond))
        else:
            planner.look_at(turn)
        if gantt.note_start(job) and (application is None or turn.again):
            service.give_way()
    placements = (placement_of(job.id, planner.decisions[job.id], snapshot.platform) for job in snapshot.asking)
    plan = Plan(tuple(placements), tuple(sorted(planner.kill)), planner.slots, planner.broken)
    events = tuple(service.close())
    taken = reduce(or_, (placement.bits for placement in plan.placements if placement.verdict is Verdict.STARTS), 0)
    return plan, Negotiated(events, kept.left(taken))


class _Ghosts:
    """Hosts that are kept back, in the form for the rules and as sets of resources."""

    def __init__(self, snapshot: Snapshot, line: Line, rules: NegotiationRules) -> None:
        self._now, self._rules, self._clusters = snapshot.now, rules, line.clusters
        self._bits: dict[int, int] = {}
        self.ghosts: list[Ghost] = []
        for ghost in line.ghosts:
            self._add(ghost.of, ghost.bits, ghost.made, ghost.latest_end, dict(ghost.viewers))
        held = reduce(or_, (job.bits or 0 for job in snapshot.holding), 0)
        for freed in line.freed:
            latest = self._now + rules.fair_start
            if rules.ghosts == "needed":
                latest = min(latest, freed.end)
            bits = freed.bits & ~held
            hosts = self._hosts(bits)
            viewers = {
                entry.id: 0 for entry in line.line if entry.answers and not hosts.keys().isdisjoint(entry.clusters)
            }
            self._add(freed.of, bits, self._now, latest, viewers)

    def _add(self, of: int, bits: int, made_at: float, latest: float, viewers: dict[int, int]) -> None:
        """Keep hosts, unless their ghost is over or there are none."""
        ghost = Ghost(Application(of, ()), self._hosts(bits), made_at, latest, viewers)
        if ghost.hosts and not ghost.over(self._rules, self._now):
            self._bits[of] = bits
            self.ghosts.append(ghost)

    def _hosts(self, bits: int) -> dict[str, int]:
        """Count the hosts of which ``bits`` has a part."""
        return {
            cluster.name: sum(1 for host in cluster.sets if host & bits)
            for cluster in self._clusters
            if cluster.bits & bits
        }

    def bits(self, ghost: Ghost) -> int:
        """Return the resources that a ghost keeps."""
        return self._bits[ghost.of.id]

    def take(self, ghost: Ghost, bits: int, spare: int = 0) -> None:
        """Take ``bits`` from a ghost; it keeps as many other hosts of its clusters as are whole in ``spare``."""
        before, left = ghost.hosts, self._bits[ghost.of.id] & ~bits
        if left == self._bits[ghost.of.id]:
            return
        others = reduce(or_, (some for of, some in self._bits.items() if of != ghost.of.id), 0)
        spare &= ~(bits | others | left)
        for cluster in self._clusters:
            missing = before.get(cluster.name, 0) - sum(1 for host in cluster.sets if host & left)
            free = [host for host in cluster.sets if not host & ~spare] if missing > 0 and spare else []
            left = reduce(or_, free[:missing], left)
        self._bits[ghost.of.id] = left
        ghost.hosts = self._hosts(left)

    def left(self, taken: int) -> tuple[KeptHosts, ...]:
        """Return the hosts still kept back once ``taken`` was given away."""
        kept = []
        for ghost in self.ghosts:
            self.take(ghost, taken)
            if ghost.hosts:
                made_at, latest = float(ghost.made), float(ghost.latest_end)
                kept.append(KeptHosts(ghost.of.id, self.bits(ghost), made_at, latest, ghost.viewers))
        return tuple(kept)


def _application(job: NegotiatingJob) -> Application:
    """Return an application in the form for the rules."""
    return Application(
        job.id,
        job.clusters,
        ranked=job.ranked,
        state=NegotiationState(job.state),
        request=CountedRequest(job.hosts, job.walltime, job.tag),
        serial=job.serial,
        shown={name: BusyHosts.of(flat) for name, flat in job.shown.items()},
        groups={name: FreeGroups.of(flat) for name, flat in job.groups.items()},
        told=job.told,
        answers=job.answers,
    )


class _GanttOccupation:
    """The Gantt of a planner as an occupation; ``turn`` is the current turn."""

    def __init__(self, planner: Planner, snapshot: Snapshot, line: Line, kept: _Ghosts) -> None:
        self.turn: Turn | None = None
        self._kept = kept
        self._taken = 0
        self._planner, self._now, self._security = planner, snapshot.now, snapshot.security_time
        self._asked = {entry.id: entry for entry in line.line}
        self._views = ClusterViews(snapshot.platform, line.clusters, line.view_steps)
        self._started: list[Held] = []
        self._precedence = Precedence.of(snapshot)
        lower = (job for job in snapshot.holding if self._precedence.depth(job))
        self._yielding = reduce(or_, (bits_held(snapshot.platform, job) for job in lower), 0)
        levels = (self._precedence.depth(job) for job in snapshot.waiting if job.id in self._asked)
        self._deepest = max((level for level in levels if level < LOWEST), default=0)

    def look(self, application: Application) -> tuple[GanttLook, int]:
        """Return the present occupation, and the number of jobs that this pass has started so far."""
        assert self.turn is not None
        return GanttLook.at(self._planner.gantt, self.turn.job), len(self._started)

    def view(
        self, application: Application, look: tuple[GanttLook, int], behind: Sequence[Application]
    ) -> ApplicationView:
        """Return the view of an occupation at a look, with the jobs that started since then."""
        seen, started = look
        return self._views.view(
            self._asked[application.id], seen.without(self._started[started:], self._now), self._now
        )

    def note_start(self, job: WaitingJob) -> bool:
        """Note the resources of a job that starts in this pass; return whether it does.

        Jobs that give way to all applications in line do not count.
        """
        decision = self._planner.decisions.get(job.id)
        if decision is None or decision.verdict is not Verdict.STARTS or decision.found is None:
            return False
        if self._precedence.depth(job) > self._deepest:
            return False
        claim = decision.found.claim
        self._taken |= claim.bits
        amount = self._planner.gantt.amount(job, roles_of(job), claim)
        self._started.append(Held(job, claim.end + self._security, claim.bits, amount))
        return True

    def place(self, application: Application) -> Time:
        """Let the planner place the application's job; return its start, infinity if it has no place."""
        assert self.turn is not None
        self._planner.look_at(self.turn)
        decision = self._planner.decisions.get(application.id)
        if decision is None or decision.found is None:
            return inf
        start = decision.found.claim.start
        if start == self._now:
            self._taken |= decision.found.claim.bits
        # best-effort jobs go first: this is no start yet
        return self._now + SOON if decision.victims and start == self._now else start

    def keep(self, ghost: Ghost) -> None:
        """Add the hosts of a ghost up to its latest end."""
        bits, gantt = self._kept.bits(ghost), self._planner.gantt
        gantt.whole.take(self._now, float(ghost.latest_end), bits, EXCLUSIVE, all_free=False)

    def give_way(self, unseen: Sequence[Ghost]) -> None:
        """Take started-on hosts from ghosts not yet added; a ghost keeps its count as far as other hosts are left."""
        if not unseen:
            return
        free = self._planner.gantt.whole.exclusive.common(self._now, nextafter(self._now, inf)) & ~self._yielding
        for ghost in unseen:
            self._kept.take(ghost, self._taken, free)
