"""Several clusters in SQL: what a cluster lets brokers do (grants and doors), and the state of a broker.

``clusters``, ``broker_jobs``, ``broker_parts``, ``transactions``, ``placing_tries``, ``reallocation_passes``,
``metajobs`` and ``decisions`` are of a broker; the others of a cluster that lets brokers in. May import what
``oarpy.store`` may.
"""

from __future__ import annotations
