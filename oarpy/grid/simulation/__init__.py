"""``oarpy grid simulate``: the broker's own core in virtual time, on clusters that files describe.

- ``fields`` and ``reader`` turn a file into a ``scenario``. ``grid_run`` drives the core, ``metrics`` judges the
  result, ``command`` prints it.
- ``queues``: the questions of a run to a cluster. ``counted_queues`` count processors. In ``named_queue`` the planner
  of real clusters places jobs on named processors.
- ``queues_run``: a run event by event. ``rules`` explains the changes of each event, ``scenario_source`` has the
  choices.
- ``promised``: the systems whose jobs have a planned start from their arrival on. ``system_of_file`` tells them apart.
"""

from __future__ import annotations
