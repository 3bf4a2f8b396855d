"""The Gantt of a pass: what is free when, and the earliest place for a job.

A *slot* is a stretch of the *timeline* during which the same resources are free; a *claim* is a place taken. May import
``oarpy.model``, ``resources``, the snapshot, ``job_roles`` and the quotas of ``order``.
"""

from __future__ import annotations
