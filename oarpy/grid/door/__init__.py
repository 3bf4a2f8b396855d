"""The door of a cluster: what a broker may ask of it, as JSON lines, and nothing else.

- ``session`` is the process behind ``oargriddoor``: it reads lines, refuses what is no call, and answers each.
- ``grants`` says for whom a broker may act; ``local_user`` acts as that user, never as an admin.
- ``answers`` answers calls, a subject each. A *key* is what makes a call that is asked twice be done once.

May import ``oarpy.client``, ``oarpy.grid.calls`` and everything below them.
"""

from __future__ import annotations
