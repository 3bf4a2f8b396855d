"""``oarpy decide``: questions in files, answered by the code that decides on clusters and in a grid.

- ``fields``: the contents of the file of each question.
- ``possible_states``: checks beyond types: ids are unique in a file, and only existing processors are held.
- ``cluster_answers``, ``grid_answers``: answers to questions to one cluster, and to a broker.
- ``counted_cluster``: writes such a file for a new reservation on the cluster of this moment, with counted processors.
- ``table``: the questions, a row each. ``command`` reads files and prints answers.

No database, no network, no clock. May import the scheduler and the grid's core.
"""

from __future__ import annotations
