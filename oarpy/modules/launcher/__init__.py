"""The launcher: the one module that talks to nodes. It starts jobs, kills them, and records how they ended.

``launcher`` is a loop over its *parts*, in the order of one table; ``parts`` says what a part may be asked.

- ``channels`` and ``addresses`` reach the nodes.
- ``recording`` writes what they say; ``endings`` tells what that means.
- ``settling`` brings jobs to their end; ``starting`` starts others, as ``specifications`` describes them to nodes.
- The room ``running`` tells the nodes of running jobs what changes: kills, signals, walltimes, suspensions, resizes.
- The room ``scripts`` runs the site's programs around jobs, and launchers of applications.
- ``restored_database`` asks nodes what ran there when the database was restored.
- ``loads`` asks nodes how busy they are; ``call_requests`` tells the gateway which commands want to be connected.

What must hold: nothing is told to a node before it is written, and no node forgets what is not recorded. A part keeps
nothing that matters: forgetting only repeats what it said. May import ``oarpy.modules.loop``, ``oarpy.transport``,
``oarpy.store`` and everything below them.
"""

from __future__ import annotations

from oarpy.modules.launcher.launcher import Launcher

__all__ = ["Launcher"]
