"""The migrations, in order: NNNN_what_it_does.py."""

from __future__ import annotations
