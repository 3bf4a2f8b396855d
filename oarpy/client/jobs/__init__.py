"""What users do with jobs and see of them: actions, listings, descriptions, explanations, steps."""

from __future__ import annotations
