"""How long a job will run: by its walltime, by what its user ran before, or by a profile of its program.

- ``run_times``: predictors over a history of runs. ``frame_profiles``: from frames at low resolution to all in full.
- ``predicted_pass``: places the jobs of a pass by predictions, and breaks no promise by one.

Pure. The rate of an iterative program is in ``oarpy.processes``.
"""

from __future__ import annotations
