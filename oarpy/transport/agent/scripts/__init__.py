"""The site's prologue and epilogue on the node, each at most once for an attempt at a job.

``scripts`` decides by the record of each script, ``script_run`` is one run in a process of its own. May import ``job``,
``statedir`` and ``outbox`` of the agent, and ``oarpy.wire``.
"""

from __future__ import annotations
