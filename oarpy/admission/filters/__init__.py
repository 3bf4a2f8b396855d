"""Property filters: PostgreSQL's grammar, an allow-list, evaluation in Python and as bound SQL.

``filters`` compiles a text into a :class:`~oarpy.admission.filters.filters.Filter`. ``tree`` makes terms of
PostgreSQL's parse tree, ``values`` says how values compare, ``parts`` takes a filter apart::

    text -> pglast -> tree -> Term: evaluated on a row, or SQL with values beside it

May import ``oarpy.model``.
"""

from __future__ import annotations
