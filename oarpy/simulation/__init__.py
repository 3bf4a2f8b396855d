"""The scheduler on files: scenarios, traces, virtual time, reports.

- ``traces`` and ``workloads``: recorded and generated input of replays.
- ``event_loop``: virtual time, for all simulations. ``engines``: the machine, and the schedulers that it drives.
- ``reports`` and ``charts``: figures and drawings of the resulting starts.
- ``scenarios``: snapshots as JSON, for ``oarpy plan``. ``run`` is ``oarpy simulate``.

A *trace* is a workload in a file. A *replay* runs it on a *machine* through a *scheduler*. The *past* is the set of
jobs that a site has run.

Invariants: no clock but the virtual one; the same trace, machine, policy and order give the same starts; a scheduler
sees estimates, never run times. May import ``cluster_state``, ``admission``, ``transport`` and the layers below. It
uses no database.
"""

from __future__ import annotations
