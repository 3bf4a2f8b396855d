"""How an installation is: its settings, what ``oarpy doctor`` finds, and the figures for monitoring.

A *finding* is one thing that is wrong, with what to do about it. May import everything that ``oarpy.client`` may.
"""

from __future__ import annotations
