"""The pure core: ``decide(snapshot, memory) -> Decisions``. No I/O, no clock, no global; imports nothing of oarpy but
``oarpy.model`` and ``oarpy.profiles``.

::

    snapshot --> decide --> rules    before and after placing: reservations, suspended jobs, energy, walltimes
                   |
                   +-> plan -> passes -> order    whose turn it is, who may have how much
                                  |
                                  +----> gantt -> resources    the earliest place, and which resources
                                  |
                                  +----> explain    why a job does not start

``windows``, ``bags`` and ``predictors`` are for what is promised: reservations that may move, bags of tasks, run times.
``snapshot`` is what a pass knows, ``memory`` what is kept from pass to pass (a cache), ``plan`` and ``verdicts`` what
becomes of waiting jobs. ``promising`` is what slices promise and keep. ``job_roles`` says what the types of a job mean
here.
"""

from __future__ import annotations
