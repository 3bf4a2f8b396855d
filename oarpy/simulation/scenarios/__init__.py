"""``oarpy plan``: scenario files read strictly, planned, and written as JSON."""

from __future__ import annotations
