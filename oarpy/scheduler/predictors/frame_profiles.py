"""The time of frames in full resolution, from frames at low resolution and one *base frame* rendered in both."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean


def predicted_frames(low: Sequence[float], base: int, full: float, frames: int) -> float:
    """Return the seconds of ``frames`` frames in full: each takes longer by the factor of the base frame."""
    return fmean(low) * frames * full / low[base]
