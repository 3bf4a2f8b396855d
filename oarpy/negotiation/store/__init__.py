"""The rows of applications that choose their own hosts, and of their requests and messages.

May import what ``oarpy.store`` may.
"""

from __future__ import annotations
