"""What is run beside jobs: prologues and epilogues, on the nodes and on the server, and launchers of applications.

``hooks`` decides what runs when, and runs each script once for an attempt at a job. ``programs`` are processes of the
launcher, some at a time, each with a time limit.
``application_launchers`` has the programs run that speak for applications.
"""

from __future__ import annotations
