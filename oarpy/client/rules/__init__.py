"""Admission rules as admins handle them: list, edit, try on past submissions, prove by cases."""

from __future__ import annotations
