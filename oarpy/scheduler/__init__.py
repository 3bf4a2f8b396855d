"""The pure core: ``decide(snapshot, memory) -> Decisions``.

It does no I/O, reads no clock and has no global state. It imports only ``oarpy.model``,
``oarpy.processes`` and ``oarpy.profiles`` of oarpy.

::

    snapshot --> decide --> rules    before and after placing: reservations, suspended jobs, energy, walltimes
                   |
                   +-> plan -> passes -> order    turns of jobs, priorities and quotas
                                  |
                                  +----> gantt -> resources    the earliest place, and which resources
                                  |
                                  +----> explain    why a job does not start

``windows``, ``bags`` and ``predictors`` serve promises: reservations that may move, bags of tasks, run times.
``snapshot`` holds the input of a pass. ``memory`` is a cache kept from pass to pass. ``plan`` and ``verdicts`` hold the
results for waiting jobs. ``promising`` lets slices make and keep promises. ``fitting`` fits walltimes
to places, ``mapped_jobs`` does so by maps of processes. ``job_roles`` gives the meaning of job types to the planner,
``precedence`` who gives way to whom, by the ``levels`` of queues and projects.
"""

from __future__ import annotations
