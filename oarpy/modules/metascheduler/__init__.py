"""The meta-scheduler: it reads a snapshot, asks the scheduler to decide, and writes the decisions.

- ``metascheduler`` is the module: one pass is one transaction.
- ``snapshot_reader`` reads; ``waiting_rows``, ``quota_rules``, ``priority_history`` and ``order_plugins`` are what it
  reads with.
- ``set_aside`` says what becomes of rows and jobs that cannot be read or decided about.
- ``written_predictions`` remembers what the table of predictions says.
- ``told_starts`` tells each waiting job once when it will start, by what was learnt from past starts.
- ``what_if`` and ``existing_resources`` answer commands: a pass with a job more, and what could ever be had.

Nothing is decided here but by :func:`oarpy.scheduler.decide.decide`. May import ``oarpy.modules.loop``,
``oarpy.simulation``, ``oarpy.admission``, ``oarpy.store``, ``oarpy.scheduler`` and everything below them.
"""

from __future__ import annotations
