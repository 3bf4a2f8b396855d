"""What all modules have in common: the loop around ``run_once``, logging, ending with the parent."""

from __future__ import annotations
