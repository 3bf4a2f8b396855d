"""Why a job does not start: reasons of verdicts, the jobs in its way, and changes that would let it start.

- ``reasons``: the verdict on each job of a pass, in words.
- ``blocking_jobs``: the jobs that hold the resources a job waits for, or fill its quota.
- ``queue_position``: the place of a job in its queue, for ``oarstat --priority``.
- ``written_filters``: the parts of a job's filters that its user wrote.
- ``counterfactuals``: a *counterfactual* is a change of the request that was tried at the job's turn.

May import everything else of the scheduler but ``decide``.
"""

from __future__ import annotations
