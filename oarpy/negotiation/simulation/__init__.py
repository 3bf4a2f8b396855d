"""``oarpy negotiate``: applications that choose their own hosts, in virtual time on counted hosts.

``fields`` are the contents of a file, ``reader`` makes the platform and the applications, ``server`` serves them,
``run`` is virtual time, ``journal`` prints. Instants are *ticks*, parts of a second that make all of them exact. May
import ``oarpy.scheduler``, ``oarpy.negotiation`` and ``oarpy.model``.
"""

from __future__ import annotations
