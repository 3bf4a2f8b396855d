"""Whether a database is as the description says: ``oarpy db check``, and the comparisons of tests.

``catalog`` reads the schema of a server, ``check`` compares it with the description, ``contradictions`` looks for rows
with impossible content. May import the rest of ``oarpy.store.schema`` and all that it may import.
"""

from __future__ import annotations
