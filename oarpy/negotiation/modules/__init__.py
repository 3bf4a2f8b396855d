"""The negotiator, which serves the launchers of applications, and the running of launchers by the site.

::

    launcher --lines--> gateway's worker --hands the connection on--> intake --> conversation --> rows
             <-------------------- what passes wrote of the application -------------------------'

- ``handover`` passes a connection and the identity of its other end. ``conversation`` is one connection. ``negotiator``
  is the module: one loop over all connections that never waits for any.
- ``gateway_call`` lets the gateway carry out subscriptions and requests as the speaking user. ``launcher_messages``
  makes messages from rows.
- ``first_view`` is the view of an application before a pass. ``resize_messages`` tracks messages about changed hosts.
- ``application_launchers`` is the part of the launcher module that runs the programs that speak for applications.

May import ``oarpy.modules.loop``, ``oarpy.modules.launcher`` and the layers below them.
"""

from __future__ import annotations
