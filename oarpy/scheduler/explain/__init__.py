"""Why a job does not start: reasons of verdicts, the jobs in its way, and what would let it start.

A *counterfactual* is a change of the request that was tried where the job stands. May import everything else of the
scheduler.
"""

from __future__ import annotations
