"""The meta-scheduler: it reads the state of the cluster, asks the scheduler to decide, and writes the decisions.

- ``metascheduler`` is the module: one pass is one transaction.
- ``written_predictions`` remembers the rows of the table of predictions, ``verdict_history`` says which verdicts are
  kept.
- ``first_predictions`` gives each waiting job once a prediction of its start, learnt from past starts.
- ``window_writes`` writes the decisions about reservations with windows; parts of the state write their own rows.

All decisions come from :func:`oarpy.scheduler.decide.decide`, and all reading is done by ``oarpy.cluster_state``. May
import ``oarpy.modules.loop``, ``oarpy.cluster_state``, ``oarpy.store``, ``oarpy.scheduler`` and everything below them.
"""

from __future__ import annotations
