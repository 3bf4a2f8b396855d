"""A page for one user: scenarios and traces stepped through in a browser. It is no page of the site.

- ``serving`` listens on the loopback interface, at a link with a token; ``app`` has the page and its requests.
- ``playing``: the open runs, and the changes of them between two steps.

It knows no cluster, no database and no user, and reads only the files that it was started with.
"""

from __future__ import annotations
