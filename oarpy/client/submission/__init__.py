"""``oarsub`` as functions, in the order in which a submission passes them.

::

    options -> draft -> values, feasibility -> rules of the site -> the same checks again -> stored
                                                                                    '-> dry_run

- ``options`` has the typed options, ``draft`` makes a submission of them, ``submission`` takes it all the way.
- ``values`` checks it by itself, ``feasibility`` against the existing resources; ``site`` answers the questions of
  rules.
- ``offers`` takes a start that was offered for a refused reservation.
- ``bags`` checks a bag of tasks, and waits for its promise. ``mapped`` checks a job whose processes are mapped, and
  makes the jobs that measure its rates first.
- ``report``, ``dry_run_report`` and ``reservation_answer`` print the results.

- ``batch/`` takes many submissions at once.

May import the rest of ``oarpy.client`` and all that it may import.
"""

from __future__ import annotations
