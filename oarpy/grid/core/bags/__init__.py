"""Bags of equal tasks over several clusters, whose queues and loads are unknown.

- ``composition``: from offers of clusters to how many tasks each gets.

After chapters 6 and 7 of M. A. S. Netto, "Adaptive Co-Allocation of Distributed Resources for Parallel Applications"
(2009). Pure.
"""

from __future__ import annotations
