"""Whether a database is as the description says: ``oarpy db check``, and what tests compare.

``catalog`` reads what a server has, ``check`` compares it with the description, ``contradictions`` looks for rows that
say what cannot be. May import the rest of ``oarpy.store.schema`` and what that may import.
"""

from __future__ import annotations
