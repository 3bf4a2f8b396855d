"""The meta-scheduler: it reads the state of the cluster, asks the scheduler to decide, and writes the decisions.

- ``metascheduler`` is the module: one pass is one transaction.
- ``written_predictions`` remembers what the table of predictions says, ``verdict_history`` which verdicts are kept.
- ``first_predictions`` tells each waiting job once when it will start, by what was learnt from past starts.
- ``window_writes`` writes what was decided for reservations with windows; parts of the state write what is theirs.

Nothing is decided here but by :func:`oarpy.scheduler.decide.decide`, and nothing read but by
``oarpy.cluster_state``. May import ``oarpy.modules.loop``, ``oarpy.cluster_state``, ``oarpy.store``,
``oarpy.scheduler`` and everything below them.
"""

from __future__ import annotations
