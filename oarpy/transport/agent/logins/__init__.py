"""A user's own SSH log-in on this node comes into a job of that user here, or not in at all.

``login_notes`` keeps the jobs that are here with their users, ``entering`` puts processes into one. ``adopter`` is the
program ``oaradopt``: PAM of sshd runs it as root for each log-in, and sshd itself as the user in place of the shell.
``choice`` lets the user of several jobs say which job is meant.

May import ``job``, ``admitted_keys`` and ``statedir`` of the agent, and ``oarpy.wire``.
"""

from __future__ import annotations
