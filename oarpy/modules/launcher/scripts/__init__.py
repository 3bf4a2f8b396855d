"""What the site has run around jobs: prologues and epilogues, on the nodes and on the server.

``hooks`` decides what runs when, ``on_nodes`` and ``on_server`` run each script once for an attempt at a job, and
``programs`` are processes of the launcher, some at a time, each with a time limit.
"""

from __future__ import annotations
