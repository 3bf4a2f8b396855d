"""The site's prologue and epilogue on the node, each at most once for an attempt at a job."""

from __future__ import annotations
