"""The experiment on programs that are mapped over unlike nodes, chapter 5 of M. A. S. Netto's thesis (2009).

- ``published_sets`` has the published rates and sets of nodes, and the question that is asked of each.
- ``real_runs`` has jobs on nodes of two speeds; each runs ``padded_islands``.
- ``mapping_report`` asks and runs, writes the files, and tells the claims.
"""

from __future__ import annotations
