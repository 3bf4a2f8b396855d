"""The past of a site: its replay under other settings, consumption, Gantt charts of a period."""

from __future__ import annotations
