"""What a command's own process needs to talk to the gateway: the standard library, and little of it.

``entry`` is where a command starts, ``conversation`` one request and its answers, ``attachment`` the streams of a
program far away. ``discovery`` tells where the gateway is; ``local_files``, ``editor`` and ``terminal`` do what only
the caller's own process can. ``node_command`` is a command on a node, which the gateway reaches by a ``call``. May
import ``oarpy.wire``.
"""

from __future__ import annotations
