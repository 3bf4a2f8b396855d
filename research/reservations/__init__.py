"""The experiments on reservations that may move, chapter 3 of M. A. S. Netto's thesis (2009).

- ``flexible`` has the runs, ``flexible_figures`` their points and files, ``flexible_report`` the claims.
"""

from __future__ import annotations
