"""Workloads that were recorded: SWF files, the site's own past, the usage before an instant."""

from __future__ import annotations
