"""A page for one user: scenarios and traces stepped through in a browser. It is no page of the site.

- ``serving`` listens on the loopback interface, at a link with a token; ``app`` has the page and what it asks for.
- ``playing``: the runs that are open, and what of them changes between two steps.

It knows no cluster, no database and no user, and reads no file but those that it was started with.
"""

from __future__ import annotations
