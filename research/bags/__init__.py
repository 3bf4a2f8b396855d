"""The experiments on bags of tasks over clusters, chapters 6 and 7 of M. A. S. Netto's thesis (2009).

- ``offers`` has the runs of bags with deadlines, ``offers_figures`` their figures, ``offers_report`` the claims.
- ``coordination``, ``coordination_figures`` and ``coordination_report`` are those of bags without deadlines.
- ``causes`` changes one thing at a time of a run of these, to tell what the gain hangs on.
"""

from __future__ import annotations
