"""Programs of many processes on unlike processors: which process goes where, and how long all take.

- ``mapping``: processes of several sizes to cores of several types, with a barrier after each stage or without.
- ``dealing``: the processes of a type of cores to its cores, one by one.
- ``models``: a map by the name of its model, which may be a plug-in, and the walltime that follows.
- ``rates``: how many iterations a second a process makes, from runs of growing length.

After chapter 5 of M. A. S. Netto, "Adaptive Co-Allocation of Distributed Resources for Parallel Applications" (2009).
Pure; the scheduler and the grid share it. Imports of oarpy only the plug-ins of ``model``.
"""

from __future__ import annotations
