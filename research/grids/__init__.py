"""Experiments of two papers on several clusters, as independent runs of ``oarpy reproduce``.

- ``deadlines`` has the runs of one, ``deadlines_figures`` their points and files, ``deadlines_report`` the claims.
- ``bursty_months`` makes the workloads whose logs are missing. ``reallocation`` has the runs, ``reallocation_tables``
  what is written and claimed of them.
"""

from __future__ import annotations
