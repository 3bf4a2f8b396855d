"""``oarpy plan``: scenario files read strictly, planned, and written as JSON.

A *scenario* is a snapshot in a file. ``fields`` are its contents, ``reader`` makes the snapshot, ``scenario`` is the
command. May import ``oarpy.admission``, ``oarpy.scheduler`` and ``oarpy.model``.
"""

from __future__ import annotations
