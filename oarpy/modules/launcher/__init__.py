"""The launcher: the one module that talks to nodes. It starts jobs, kills them, and records how they ended.

``launcher`` is the module; its *round* is ``run_once``. Each of its parts hears the reports that concern it:

- ``channels`` and ``addresses`` reach the nodes; ``reports`` sorts what they say, ``endings`` tells what it means.
- ``specifications`` says what a node is told of a job; ``cleaning`` and the room ``running`` tell it what
  is to be done.
- ``hooks`` runs the site's programs around jobs: ``node_scripts`` on nodes, ``server_scripts`` and ``programs`` here.
- ``recalling`` asks nodes what ran there when the database was restored.
- ``call_requests`` passes on to the gateway which commands on nodes want to be connected.

A *part* forgets nothing that matters: forgetting only repeats what it said. May import ``oarpy.modules.loop``,
``oarpy.transport``, ``oarpy.store`` and everything below them.
"""

from __future__ import annotations

from oarpy.modules.launcher.launcher import Launcher

__all__ = ["Launcher"]
