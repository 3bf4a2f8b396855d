"""Experiments that are lists of independent runs: one runner for all of them.

- ``experiment``: what a run is. ``kept_runs``: finished runs in files. ``runner`` does those that are missing, on
  ``pools`` of processes or Dask workers. ``judged_claims``: what comes of it, line by line.
- ``ndrms`` has the experiments of INRIA RR-7389; those on several clusters are in ``grids``.
"""

from __future__ import annotations
