"""Several clusters in SQL: the rights of brokers on a cluster (grants and doors), and the state of a broker.

``clusters``, ``broker_jobs``, ``broker_parts``, ``transactions``, ``placing_tries``, ``reallocation_passes``,
``metajobs`` and ``decisions`` belong to a broker; the others to a cluster that lets brokers in. May import the packages
that ``oarpy.store`` may.
"""

from __future__ import annotations
