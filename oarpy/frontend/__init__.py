"""A command's own process, which talks to the gateway: it needs the standard library, and little of that.

``entry`` is where a command starts, ``conversation`` one request and its answers, ``attachment`` the streams of a
program far away. ``discovery`` finds the gateway; ``local_files``, ``editor`` and ``terminal`` do the work that only
the caller's own process can do, ``measuring`` that of a job that measures rates. ``node_command`` is a command on a
node, which the gateway reaches by a ``call``. May import ``oarpy.wire``.
"""

from __future__ import annotations
