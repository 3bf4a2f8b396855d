"""The experiments on reservations that may move, chapters 3 and 4 of M. A. S. Netto's thesis (2009).

- ``flexible`` has the runs, ``flexible_figures`` their points and files, ``flexible_report`` the claims.
- ``flexco`` has those of jobs over clusters that begin earlier, ``flexco_report`` their files and claims.
"""

from __future__ import annotations
