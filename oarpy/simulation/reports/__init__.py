"""What a replay is judged by and how that is shown."""

from __future__ import annotations
