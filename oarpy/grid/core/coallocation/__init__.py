"""Parallel jobs over several clusters (*metajobs*): their common start, and their way to an earlier one.

- ``common_start``: the first instant at which one cluster has room, or several together.
- ``typed_cores``: the free cores of a cluster that has nodes of several types.
- ``early_end``: a job ended early on a cluster, so others and metajobs come forward.

After chapter 4 of M. A. S. Netto, "Adaptive Co-Allocation of Distributed Resources for Parallel Applications" (2009).
Pure; ``oarpy.profiles`` has the free processors.
"""

from __future__ import annotations
