"""A job on its node: its record, the supervisor that runs it, what keeps it apart, how it is stopped and found."""

from __future__ import annotations
