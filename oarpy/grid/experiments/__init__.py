"""Experiments of two papers on several clusters, as independent runs: ``oarpy reproduce reallocation``.

- ``bursty_months`` makes the workloads whose logs are missing. ``reallocation`` has the runs, ``reallocation_tables``
  what is written and claimed of them.
"""

from __future__ import annotations
