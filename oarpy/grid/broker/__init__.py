"""The broker of real clusters: its decisions are those of ``oarpy.grid.core``, its memory is the database.

- ``decisions``: decisions of the core as values of JSON, which can be taken again.
- ``replay``: takes stored decisions again (``oarpy grid replay``).
- ``connections``: the connections to clusters, each in a thread of its own.
- ``transactions``: the one engine of changes on several clusters, made of ``acts``; ``outcomes``: how these ended.
- ``pass_plan``: plans which jobs move in a reallocation pass, by the estimates of clusters.
- ``conversations``: conversations with clusters.
- ``set_aside``: work about one job that fails alone.
- ``mapper``: the module for jobs on one cluster. ``watcher``: the module that takes in the events of clusters.
- ``claimer``: the module for jobs with several components, which are in ``coallocated/``.
- ``mover``: the module for reallocation passes and their moves, by ``move_checks`` at both clusters.
"""

from __future__ import annotations
