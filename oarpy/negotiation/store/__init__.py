"""The rows of applications that choose their own hosts, of their requests and messages, and of links between clusters.

May import what ``oarpy.store`` may.
"""

from __future__ import annotations
