"""Frames of a film, rendered by POV-Ray as the tasks of a bag whose profile is taken first."""

from __future__ import annotations
