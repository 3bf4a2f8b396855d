"""Counted free time: the number of equal free processors over time, and algorithms that need no more than that.

- ``profile``: the counted form, a step function of time, and the first common start over several.
- ``timeline``: the interface to free time for algorithms, for counted or named processors.
- ``planned``: jobs with a planned start, and how they move forward.
- ``policies``: starts by counts alone, as EASY has them.

Below the scheduler, the grid and the simulation, which share it. Imports nothing of oarpy.
"""

from __future__ import annotations
