"""The door of a cluster: the calls that a broker may make, as JSON lines, and nothing else.

- ``session`` is the process behind ``oargriddoor``: it reads lines, refuses every line that is no call, and answers.
- ``grants`` says for which users a broker may act; ``local_user`` acts as such a user, never as an admin.
- ``answers`` answers calls, in a module for each subject. A *key* makes a repeated call be done once.

May import ``oarpy.client``, ``oarpy.grid.calls`` and everything below them.
"""

from __future__ import annotations
