"""The embedded PostgreSQL server: its programs, its account, its settings and its processes.

``embedded_server`` starts, finds and stops the server of a folder. ``binaries`` chooses the programs, ``account`` the
user they run as, ``processes`` finds them by the kernel's word. May import ``oarpy.model`` alone.
"""

from __future__ import annotations
