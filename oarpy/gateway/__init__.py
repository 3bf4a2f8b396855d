"""The submission gateway: it runs the commands of users who have no way to the database.

One process (``gateway``) accepts connections on a Unix socket, reads each request without ever waiting for it, and
hands it with its connection to one of the workers that it forked. A worker has everything imported and a connection to
the database; it runs the command as the caller that the socket's peer credentials name, one at a time.
"""

from __future__ import annotations
