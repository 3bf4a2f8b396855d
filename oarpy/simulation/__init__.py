"""The scheduler on files: scenarios, traces, virtual time, reports.

A *trace* is a workload of jobs (``swf``, or made by ``lublin`` and ``esp2``). A *replay* (``engine``) runs it on a
*machine* through a *scheduler*: the counting ``baselines``, or ``production``, which asks the planner of the cluster.
``metrics`` judges the starts that come out, ``report`` and ``charts`` show them, ``run`` is the command.

Invariants: no clock but the virtual one; the same trace, machine, policy and order give the same starts; a scheduler
sees estimates, never run times.
"""

from __future__ import annotations
