"""The pure core: ``decide(snapshot, memory) -> Decisions``. No I/O, no clock, no global; imports only ``oarpy.model``.

Who reads what, from the outside in:

- ``decide``: everything that a pass decides. ``snapshot``, ``platform``: what it knows. ``memory``: what is kept from
  pass to pass, a cache. ``plan``, ``verdicts``: where and when jobs wait, and why.
- ``rules``: who gives way, accepted reservations. ``passes``: how a pass goes over the queues, whole, from the last
  one, for its starts alone, or up to one job; the planning policies. ``orders``, ``priorities``: the order of a queue.
  ``dependencies``, ``dates``: when a job may
  start. ``explain``: why it does not start now.
- ``search``: the earliest place of a job. ``demands``: a job made ready for that. ``gantt``, ``spaces``, ``pieces``,
  ``roles``: who holds what where, who shares. ``quotas``: who counts. ``consumables``, ``stocks``, ``gauges``: amounts.
- ``matching``, ``trees``, ``counting``: which resources serve a request. ``timeline``, ``windows``, ``joint``,
  ``tables``, ``bounds``: when, without looking at every set. ``bits``: sets of resources as integers.
- ``counterfactuals``, ``bindings``, ``standing``: what is told of one job.
- ``resuming``, ``shifting``, ``walltime_change``, ``energy``: suspended jobs, reservations that lost resources, jobs
  that ask for more time, nodes that sleep.

Words: a *block* is the set of resources that share a value of a level inside the block above it; a *slot* is a period
in which what is free does not change; a *wall* is a slot that cannot serve a request; a *view* is a timeline as seen by
jobs that share with the same partners; a *claim* is what a job holds, when.

What always holds: a placement is never moved by a job looked at later (EASY's head, whose date stays, excepted); equal
snapshots give equal plans; nothing about one job stops the pass for the others; every shortcut gives the plan that
trying each slot in turn would give (tested against a naive planner).
"""

from __future__ import annotations
