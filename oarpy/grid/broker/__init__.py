"""The broker of real clusters: its decisions are those of ``oarpy.grid.core``, its memory is the database.

- ``decisions``: what the core decided, as values of JSON, and decided again.
- ``replay``: stored decisions are taken again (``oarpy grid replay``).
- ``connections``: a thread a cluster.
- ``transactions``: the one engine of changes on several clusters, made of ``acts``; ``outcomes``: how these ended.
- ``pass_plan``: who moves in a reallocation pass, by what clusters estimate.
- ``conversations``: conversations with clusters.
- ``mapper``: the module for jobs on one cluster. ``watcher``: the module that takes in what happened on clusters.
- ``claimer``: the module for jobs with several components, which are in ``coallocated/``.
- ``mover``: the module for reallocation passes and their moves, by ``move_checks`` at both clusters.
"""

from __future__ import annotations
