"""The scheduler on files: scenarios, traces, virtual time, reports.

- ``traces`` and ``workloads``: what is replayed, recorded or made to order.
- ``event_loop``: virtual time, for all that is simulated. ``engines``: the machine, and the schedulers that are
  driven by it.
- ``reports`` and ``charts``: how the starts that come out are judged and shown.
- ``scenarios``: snapshots as JSON, for ``oarpy plan``. ``run`` is ``oarpy simulate``.

A *trace* is a workload in a file. A *replay* runs it on a *machine* through a *scheduler*. The *past* is what a
site has run.

Invariants: no clock but the virtual one; the same trace, machine, policy and order give the same starts; a scheduler
sees estimates, never run times. May import ``cluster_state``, ``admission``, ``transport`` and what is below; no
database takes part.
"""

from __future__ import annotations
