"""What a command's own process needs to talk to the gateway: the standard library, and little of it.

``frames`` is the wire format that the gateway shares, ``conversation`` one request and its answers, ``discovery`` where
the gateway is, ``local_files`` and ``editor`` what only the caller's own process can do.
"""

from __future__ import annotations
