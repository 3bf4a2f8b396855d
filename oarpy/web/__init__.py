"""REST, the paths of OAR 2.5 and the pages, in one process that a reverse proxy or a Unix socket gives access to.

::

    request --> limits --> identity (token, cookie, peer) --> audit --> endpoint --> seat --> oarpy.client
                                                                         (a connection and what it remembers)

- ``app`` puts the application together; ``serving`` runs it, ``protocol`` asks the kernel who connected.
- ``identity`` says who calls and what they may; ``audit`` writes down what they do; ``limits`` bounds requests.
- ``seats`` is the pool: an endpoint opens a session there and calls what commands call.
- ``api`` has the endpoints, ``oarapi`` those of OAR 2.5, ``pages`` the pages for browsers.
- ``stepping`` is a program of its own: a page for one user, who goes through a schedule.
- ``answers`` describes, of each endpoint, the type that it returns.

May import ``oarpy.client`` and everything below it, FastAPI and uvicorn.
"""

from __future__ import annotations
