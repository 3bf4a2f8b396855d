"""Examples to read, run and start from: programs that users of a cluster write.

They may use ``oarpy.negotiation`` and the standard library, Python 3.9. ``oarpy demo --negotiate`` runs them.
"""

from __future__ import annotations
