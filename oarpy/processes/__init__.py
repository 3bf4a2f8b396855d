"""Programs of many processes on unlike processors: which process goes where, and how long all take.

- ``mapping``: processes of several sizes to cores of several types, with a barrier after each stage or without.
- ``dealing``: the processes of a type of cores to its cores, one by one.
- ``rates``: how many iterations a second a process makes, from runs of growing length.

After chapter 5 of M. A. S. Netto, "Adaptive Co-Allocation of Distributed Resources for Parallel Applications" (2009).
Pure; the scheduler and the grid share it. Imports nothing of oarpy.
"""

from __future__ import annotations
