"""Pictures of replays: Gantt chart, use and queue over time.

A *bar* is a job on the chart, a *row* a processor, a *column* one of the equal spans that the time is cut into. Drawing
needs matplotlib, which the extra ``plots`` installs and which is imported only when something is drawn. May import
``reports``, ``traces`` and ``oarpy.model``.
"""

from __future__ import annotations
