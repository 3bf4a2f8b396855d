"""The Python API behind the commands, and the renderers of its results."""

from __future__ import annotations
