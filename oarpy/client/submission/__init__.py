"""``oarsub`` as functions, in the order in which a submission passes them.

::

    options -> draft -> values, feasibility -> rules of the site -> the same checks again -> stored
                                                                                    '-> dry_run

- ``options`` is what was typed, ``draft`` makes a submission of it, ``submission`` takes it all the way.
- ``values`` checks it by itself, ``feasibility`` against the resources that exist; ``site`` is what rules may ask.
- ``offers`` takes a start that a refused reservation was offered.
- ``bags`` says what a bag of tasks may be, and waits for what it is promised.
- ``report``, ``dry_run_report`` and ``reservation_answer`` tell what came of it.

- ``batch/`` takes many at once.

May import the rest of ``oarpy.client`` and what that may import.
"""

from __future__ import annotations
