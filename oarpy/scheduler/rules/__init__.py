"""Rules of a pass besides placing: who gives way to whom, what becomes of accepted reservations.

May import the rest of ``oarpy.scheduler`` but ``decide``, which asks these rules in their order.
"""

from __future__ import annotations
