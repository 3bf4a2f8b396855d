"""Admission rules: compiled one by one, run over a submission, proved by cases."""

from __future__ import annotations
