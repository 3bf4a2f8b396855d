"""REST, the paths of OAR 2.5 and the pages, in one process that a reverse proxy or a Unix socket gives access to.

::

    request --> limits --> identity (token, cookie, peer) --> audit --> endpoint --> seat --> oarpy.client
                                                                         (a connection and what it remembers)

- ``app`` puts the application together; ``serving`` runs it, ``protocol`` asks the kernel for the peer.
- ``identity`` finds the caller and the caller's rights; ``audit`` writes down actions; ``limits`` bounds requests.
- ``seats`` is the pool: an endpoint opens a session there and calls the functions of commands.
- ``api`` has the endpoints, ``oarapi`` the endpoints of OAR 2.5, ``pages`` the pages for browsers.
- ``stepping`` is a program of its own: a page for one user, who goes through a schedule.
- ``answers`` describes the type that each endpoint returns.

May import ``oarpy.client`` and everything below it, FastAPI and uvicorn.
"""

from __future__ import annotations
