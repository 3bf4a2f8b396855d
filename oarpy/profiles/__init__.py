"""Counted free time: how many of equal processors are free when, and what needs no more than that.

- ``profile``: the counted form, a step function of time, and the first common start over several.
- ``timeline``: what algorithms ask of free time, whether processors are counted or named.
- ``planned``: jobs with a planned start, and how they move forward.
- ``policies``: starts by counts alone, as EASY has them.

Below the scheduler, the grid and the simulation, which share it. Imports nothing of oarpy.
"""

from __future__ import annotations
