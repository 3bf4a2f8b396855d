"""``oarpy decide``: questions in files, answered by the code that decides on clusters and in a grid.

- ``fields``: what the file of each question may hold.
- ``possible_states``: what kinds cannot say: nobody is twice in a file, nothing is held that is not there.
- ``cluster_answers``, ``grid_answers``: what is asked of one cluster, and of a broker.
- ``counted_cluster``: the question of a new reservation to the cluster of this moment, counted, as such a file.
- ``table``: the questions, a row each. ``command`` reads files and prints answers.

No database, no network, no clock. May import the scheduler and the grid's core.
"""

from __future__ import annotations
