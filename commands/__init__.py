"""One file a command: it parses the arguments, calls ``oarpy.client``, and renders the result.

A command decides nothing by itself. Its docstrings and option texts are its help, and so the page ``docs/commands.md``.
May import ``oarpy.client``, ``oarpy.local_cluster`` and everything below them. ``checkout`` finds ``research/``.
"""

from __future__ import annotations
