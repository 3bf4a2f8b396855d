"""The programs of the site beside jobs: prologues and epilogues, on the nodes and on the server.

``hooks`` decides when they run, and runs each script once for an attempt at a job. ``programs`` are processes of the
launcher, some at a time, each with a time limit.
"""

from __future__ import annotations
