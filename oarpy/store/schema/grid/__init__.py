"""The tables of several clusters: ``door`` has those of a cluster that lets brokers in, ``broker`` those of a broker.

May import the rest of ``oarpy.store.schema`` and what that may import.
"""

from __future__ import annotations
