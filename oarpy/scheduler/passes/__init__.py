"""How a pass goes over the queues. May import all of ``oarpy.scheduler``, where ``plan`` and what explains jobs use it.

- ``planner``: the one pass. ``turns``: who is looked at when.
- ``backfilling``: the planning policies.
- Loops around the planner: ``starts_only`` ends once nobody else can start, ``continued`` is kept and goes on.
  ``compressed`` moves jobs forward from their places, ``probe`` stops at one job. The full one is ``scheduler.plan``.
- ``replanning``: pass after pass, each made from the last one where ``changes`` says that it can be.

A *turn* is when a job is looked at. A job is *parked* until one that it needs is *settled*. A *stage* is the queues
planned together. An *inquiry* is what was asked for a job and found. A *policy* says how jobs are placed once they are
in *order*.
"""

from __future__ import annotations
