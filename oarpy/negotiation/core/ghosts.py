"""Freed hosts that are kept back for a moment, so that a slow launcher ranked high does not lose them to a fast one.

::

    end of the application      pass that makes the ghost          latest end
    ----------|------------------------|------------------------------|--------->
              '---- hosts stay busy ---'------ ghost, while needed ----'
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from oarpy.negotiation.core.applications import Application, NegotiationRules
from oarpy.negotiation.profiles import Time


@dataclass(slots=True, eq=False)
class Ghost:
    """The hosts that application ``of`` has left, from the pass that ``made`` it to its ``latest_end``.

    With ghosts as needed, ``viewers`` are the applications that see it first, by id. In the pass that makes it these
    are all that it is shown to, later the ones that owe an answer. Each has the serial of the view that it must answer,
    0 before that view is sent.
    """

    of: Application
    hosts: dict[str, int]
    made: Time
    latest_end: Time
    viewers: dict[int, int] = field(default_factory=dict)

    def over(self, rules: NegotiationRules, now: Time) -> bool:
        """Tell whether a pass at ``now`` ends it."""
        return now >= self.latest_end or (rules.ghosts == "needed" and not self.viewers)


def make_ghost(of: Application, line: Iterable[Application], rules: NegotiationRules, now: Time) -> Ghost:
    """Return the ghost of an ended application; the pass at ``now`` shows it to the applications of ``line``."""
    if of.start is None:
        return Ghost(of, {}, now, now)
    hosts, latest = dict(of.asked.hosts), now + rules.fair_start
    if rules.ghosts == "always":
        return Ghost(of, hosts, now, latest)
    viewers = {
        application.id: 0
        for application in line
        if application.answers and not hosts.keys().isdisjoint(application.clusters)
    }
    return Ghost(of, hosts, now, min(latest, of.releases(rules)), viewers)


def settle(ghosts: Sequence[Ghost], application: int, serial: int) -> bool:
    """Note an answer to view ``serial`` and earlier views; return whether any was owed."""
    owed = [ghost for ghost in ghosts if 0 < ghost.viewers.get(application, 0) <= serial]
    for ghost in owed:
        del ghost.viewers[application]
    return bool(owed)
