"""``oarpy grid simulate``: the broker's own core in virtual time, on clusters that files describe.

- ``fields`` and ``reader``: a file becomes a ``scenario``. ``grid_run`` drives the core, ``metrics`` judges what comes
  out, ``command`` prints it.
- ``queues``: what a run asks of a cluster. ``counted_queues`` count processors, and ``named_queue`` has the planner of
  real clusters place jobs on named ones.
- ``queues_run``: a run event by event. ``rules`` has why events change what, ``scenario_source`` what may be chosen.
- ``promised``: the systems whose jobs have a planned start from their arrival on. ``system_of_file`` tells them apart.
"""

from __future__ import annotations
