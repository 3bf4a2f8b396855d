"""The expected run time of a job: its walltime, a value from its user's past jobs, or from a profile of its program.

- ``run_times``: predictors over a history of runs. ``frame_profiles``: from frames at low resolution to all in full.
- ``predicted_pass``: places the jobs of a pass by predictions, and never lets one break a promise.

Pure. The rate of an iterative program is in ``oarpy.processes``.
"""

from __future__ import annotations
