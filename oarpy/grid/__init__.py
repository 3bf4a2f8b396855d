"""Several clusters: where jobs go, when the parts of one job start together, and which waiting jobs move.

- ``core``: the decisions of the broker, pure. ``simulation``: the same decisions in virtual time, on clusters in files.
- ``broker``, ``modules``: the broker of real clusters and its processes. ``calls``: the calls that a broker makes to a
  cluster; ``clusters``: the kinds of clusters that answer them.
- ``door``: the calls of a broker that a cluster admits, and their answers. ``submission``, ``reports``,
  ``administration``: the work of the commands ``oargrid...`` for users and admins of a broker.
"""

from __future__ import annotations
