"""Several clusters: where jobs go, when the parts of one job start together, and what moves while it waits.

- ``core``: the decisions of the broker, pure. ``simulation``: the same decisions in virtual time, on clusters in files.
- ``broker``, ``modules``: the broker of real clusters and its processes. ``calls``: what it may ask of a cluster;
  ``clusters``: who answers.
- ``door``: what a cluster lets a broker do. ``submission``, ``reports``, ``administration``: what users and admins of a
  broker ask of it, for the commands ``oargrid...``.
"""

from __future__ import annotations
