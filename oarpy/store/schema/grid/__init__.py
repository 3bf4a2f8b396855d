"""The tables of several clusters: ``door`` for a cluster that lets brokers in, ``broker`` for a broker.

May import the rest of ``oarpy.store.schema`` and all that it may import.
"""

from __future__ import annotations
