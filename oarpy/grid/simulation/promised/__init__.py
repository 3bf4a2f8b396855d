"""Systems in which every job has a planned start from its arrival on, which moves only by rules.

- ``fields``, ``reader``: what a file of these systems may hold, and its checks.
- ``world``: what all of them have in common: begins, ends, what was really used, states of jobs.
- ``windows``, ``flexco``, ``offers``, ``bags``: a world each, with the code that decides on clusters and in a broker.
- ``systems``: the four, by name.
"""

from __future__ import annotations
