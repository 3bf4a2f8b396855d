"""The views that users have of their grid jobs: ``oargridstat`` and ``oargriddel``.

- ``grid_job_views``: a job with its components and parts. ``grid_job_texts``: the lines that programs read, and JSON.
- ``job_explanation``: why a job is as it is. ``grid_moves``: where it was moved. ``deletion``: asking for its end.
"""

from __future__ import annotations
