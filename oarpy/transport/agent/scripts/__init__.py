"""The node's programs beside jobs: the site's prologue and epilogue, and the programs that speak for applications.

``scripts`` decides by the record of each script, ``script_run`` is one run in a process of its own; so do ``launchers``
and ``launcher_run``. May import ``job``, ``statedir`` and ``outbox`` of the agent, and ``oarpy.wire``.
"""

from __future__ import annotations
