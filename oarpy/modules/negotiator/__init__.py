"""The negotiator: it speaks with the launchers of applications, each over a connection of its own.

::

    launcher --lines--> gateway's worker --hands the connection on--> intake --> conversation --> rows
             <-------------------- what passes wrote of the application -------------------------'

- ``handover`` passes a connection and who is at its end; ``conversation`` is one connection; ``negotiator`` is the
  module: one loop over all of them that never waits for any.
- ``gateway_call`` has subscriptions and requests carried out by the gateway, as who speaks; ``told`` makes messages of
  rows.
- ``first_view`` is what an application is shown before a pass.

May import what ``oarpy.modules`` may, and nothing of other modules.
"""

from __future__ import annotations
