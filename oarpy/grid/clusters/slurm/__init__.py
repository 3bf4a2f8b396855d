"""A cluster that runs Slurm as it is.

- ``cluster`` answers calls by commands, which ``scripts`` writes. ``jobs`` reads the output of Slurm.
- ``marks`` are comments of jobs: all that a broker keeps there.
"""

from __future__ import annotations
