"""``oarsub`` as functions: options, draft, checks, feasibility, dry run, the answer."""

from __future__ import annotations
