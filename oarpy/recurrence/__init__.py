"""Recurring jobs: a slice, from ``oarsub --every`` to the jobs that are submitted at each due time.

A *series* is a submission with a rule; a *due time* is an instant at which the rule has a job submitted.

- ``rules``: the grammar of ``--every``, and the due times that follow. It imports ``oarpy.model`` alone.
- ``series``: begin a series, list series, end them, for commands. ``reports``: what these print.
- ``contradictions``: rows that can have no job, for ``oarpy db check``.
- ``recurrence``: the module that submits at due times, by the same checks and rules as the user's own ``oarsub``.

Rows are in ``oarpy.store.jobs.recurring``. May import ``oarpy.client`` and everything below it.
"""

from __future__ import annotations
