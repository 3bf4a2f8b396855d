"""The default admission rules, one file each, with the cases that prove each beside it."""

from __future__ import annotations
