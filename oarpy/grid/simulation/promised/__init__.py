"""Systems in which every job has a planned start from its arrival on, which moves only by rules.

- ``fields``, ``reader``: the fields of a file of these systems, and its checks.
- ``world``: the common part of all of them: begins, ends, processors really used, states of jobs.
- ``windows``, ``flexco``, ``offers``, ``bags``: a world each, with the code that decides on clusters and in a broker.
- ``systems``: the four, by name.
"""

from __future__ import annotations
