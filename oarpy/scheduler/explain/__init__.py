"""Why a job does not start: reasons of verdicts, the jobs in its way, and what would let it start.

- ``reasons``: the verdict on each job of a pass, in words.
- ``blocking_jobs``: who holds what a job waits for, or fills its quota.
- ``queue_position``: where a job stands, for ``oarstat --priority``.
- ``written_filters``: what of a job's filters its user wrote.
- ``counterfactuals``: a *counterfactual* is a change of the request that was tried where the job stands.

May import everything else of the scheduler but ``decide``.
"""

from __future__ import annotations
