"""What revisions before the baseline did to the rows of databases, a module each: ``rows(connection)``.

The structure of older databases is brought to the description by ``oarpy.store.schema.older_databases``; what these
modules cannot leave to it, as a column that changes its type, they do too.
"""

from __future__ import annotations
