"""The negotiator, which speaks with the launchers of applications, and who runs these where the site does.

::

    launcher --lines--> gateway's worker --hands the connection on--> intake --> conversation --> rows
             <-------------------- what passes wrote of the application -------------------------'

- ``handover`` passes a connection and who is at its end; ``conversation`` is one connection; ``negotiator`` is the
  module: one loop over all of them that never waits for any.
- ``gateway_call`` has subscriptions and requests carried out by the gateway, as who speaks; ``launcher_messages``
  makes messages of rows.
- ``first_view`` is what an application is shown before a pass; ``resize_messages`` is what it was told of its hosts.
- ``application_launchers`` is the part of the launcher that has the programs run that speak for applications.

May import ``oarpy.modules.loop``, ``oarpy.modules.launcher`` and what is below them.
"""

from __future__ import annotations
