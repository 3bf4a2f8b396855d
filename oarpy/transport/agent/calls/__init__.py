"""Commands that users run on a node: how the server learns of them, and how their conversation reaches the gateway.

``commands`` installs the script, ``call_requests`` hears which commands listen, ``call`` is the program that carries
one. May import ``oarpy.frontend.call`` and ``oarpy.wire``.
"""

from __future__ import annotations
