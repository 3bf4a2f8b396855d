"""The scheduler on files: scenarios, traces, virtual time, reports."""

from __future__ import annotations
