"""The programs on a node: standard library only (Python 3.9 or newer), sent over the channel, nothing to install.

``service`` is the agent's loop, ``orders`` its answers to orders about known jobs, ``statedir`` its folder on the node.
``job`` runs jobs, ``steps`` programs inside them, ``scripts`` the site's programs, ``calls`` connects users' commands.
``programs`` installs programs, such as the users' commands, as scripts whose modules are compiled already.
``child_answer`` has a process of its own find an answer: how busy GPUs are (``gpu_use``), whether the node is fit.

Vocabulary. The *agent* sits at the end of one channel and keeps no truth. A *supervisor* is a process of the node that
runs one job at a time and outlives the agent. The *record* of a (job, attempt) is one file: its lock tells whether a
process holds the job, its lines have the events of the job. A *tombstone* remembers a forgotten (job, attempt), so that
a late start is refused.

Invariants. Only the holder of a record's lock executes the command, after it wrote the line ``started``. A record with
that line is never executed again. An outcome is on disk before it is reported. Any agent, at any time, can find out
from the state directory alone how a job ended. May import ``oarpy.wire`` and ``frontend.call``.
"""

from __future__ import annotations
