"""What a command's own process needs to talk to the gateway: the standard library, and little of it.

``conversation`` is one request and its answers, ``discovery`` where the gateway is, ``local_files`` and ``editor`` what
only the caller's own process can do. ``node_command`` is a command on a node, which is reached by a ``call``.
"""

from __future__ import annotations
