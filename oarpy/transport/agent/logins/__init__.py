"""Who logs in on this node over SSH by himself comes into a job of his here, or not in at all.

``login_notes`` keeps which jobs are here and for whom, ``entering`` puts processes into one. ``adopter`` is the program
``oaradopt``: PAM of sshd runs it as root for each log-in, and sshd itself as the user in place of the shell. ``choice``
lets the user of several jobs say which one is meant.

May import ``job``, ``admitted_keys`` and ``statedir`` of the agent, and ``oarpy.wire``.
"""

from __future__ import annotations
