"""The work of users on existing jobs, and their views of jobs.

- ``selection`` reads which jobs are meant; ``actions`` and ``walltime_changes`` act on them.
- ``rates`` are those of programs, as jobs measure them.
- ``reports`` are the forms of ``oarstat``: ``job_table``, ``description``, ``explanation`` (``--why``) with its
  ``explanation_report``; ``views`` are about several jobs together.
- ``job_steps``, ``parallel_steps`` and ``interactive`` run programs inside jobs; ``resource_print`` prints the
  resources of a job.

A *step* is a program started inside a running job, behind a channel of its own. May import the rest of ``oarpy.client``
and all that it may import.
"""

from __future__ import annotations
