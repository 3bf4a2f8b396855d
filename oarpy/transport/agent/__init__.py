"""What runs on a node: standard library only (Python 3.9 or newer), sent over the channel, nothing to install.

Vocabulary. The *agent* sits at the end of one channel and keeps no truth. A *supervisor* is a process of the node
that runs one job at a time and outlives the agent. The *record* of a (job, attempt) is one file whose lock
tells whether somebody holds the job and whose lines tell what happened to it. A *tombstone* remembers a forgotten
(job, attempt), so that a late start is refused.

Invariants. A command is executed only by the holder of its record's lock, after the line ``started`` was written;
a record with that line is never executed again. An outcome is on disk before anybody is told. Any agent, at any
time, can find out from the state directory alone what became of a job.
"""

from __future__ import annotations
