"""The decisions of a broker: ``step(state, event, now) -> actions``. No I/O and no clock.

Imports only ``oarpy.model``, ``oarpy.profiles`` and ``oarpy.processes``.

- ``broker_state``: clusters, jobs, rules, and the broker's memory. ``exchanges``: its events and actions. ``step``
  leads from an event to actions, by the table of systems.
- Jobs for one cluster: ``mapping`` at submission, ``reallocation`` while they wait, by ``heuristics``.
  ``followers`` has the withdrawn jobs that need not be looked at yet.
- Jobs whose components start together (``deadlines``): ``placing_policy`` says when to look for room,
  ``worst_fit`` where.
- Parallel jobs over clusters: ``metajobs``; those whose processes are mapped: ``mapped_programs``.
- ``coallocation``: parallel jobs over several clusters that start together, and earlier. ``bags``: bags from offers.
"""

from __future__ import annotations
