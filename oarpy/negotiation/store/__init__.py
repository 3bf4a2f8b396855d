"""Applications: jobs that choose their own hosts, what they ask for and are told, and the links between clusters.

May import what ``oarpy.store`` may.
"""

from __future__ import annotations
