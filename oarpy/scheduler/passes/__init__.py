"""How a pass goes over the queues. May import all of ``oarpy.scheduler`` that ``plan`` and ``explain`` use.

- ``planner``: the planner of every pass. ``turns``: the order in which jobs are looked at.
- ``backfilling``: the planning policies.
- Loops around the planner: ``starts_only`` ends once no other job can start, ``continued`` is kept and goes on.
  ``compressed`` moves jobs forward from their places, ``probe`` stops at one job. The full pass is in
  ``scheduler.plan``.
- ``replanning``: pass after pass, each made from the last one if ``changes`` allows it.

A *turn* is the moment in a pass when a job is looked at. A job is *parked* until a job that it needs is *settled*. A
*stage* is a set of queues planned together. An *inquiry* is a search for a job with its result. A *policy* says how
jobs are placed once they are in *order*.
"""

from __future__ import annotations
