"""Planning policies by name: how a queue is planned once its jobs are in order."""

from __future__ import annotations

from typing import Literal, get_args

PolicyName = Literal["conservative", "easy", "fcfs"]
"""What ``scheduler.policy`` may be; :mod:`oarpy.scheduler.passes.backfilling` has a class for each."""
POLICIES: tuple[PolicyName, ...] = get_args(PolicyName)
