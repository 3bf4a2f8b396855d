"""The launcher: the one module that talks to nodes. It starts jobs, kills them, and records how they ended.

``launcher`` is a loop over its *parts*, in the order of one table; ``parts`` has the methods of a part.

- ``channels`` and ``addresses`` reach the nodes.
- ``recording`` writes the reports of nodes; ``endings`` interprets them.
- ``settling`` brings jobs to their end; ``starting`` starts others, as ``specifications`` describes them to nodes.
- The room ``running`` sends changes to the nodes of running jobs: kills, signals, walltimes, suspensions, resizes.
- The room ``scripts`` runs the site's programs around jobs, and launchers of applications.
- ``restored_database`` asks nodes which jobs ran there when the database was restored.
- ``loads`` asks nodes how busy they are, ``gpu_uses`` how busy the GPUs of jobs are.
- ``health_checks`` has the site's program check nodes.
- ``call_requests`` tells the gateway which commands want to be connected.

What must hold: a message goes to a node only after it is written, and no node forgets anything before it is recorded. A
part keeps no truth: a part that forgets only repeats its messages. May import ``oarpy.modules.loop``,
``oarpy.transport``, ``oarpy.store`` and everything below them.
"""

from __future__ import annotations

from oarpy.modules.launcher.launcher import Launcher

__all__ = ["Launcher"]
