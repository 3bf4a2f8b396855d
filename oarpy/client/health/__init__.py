"""The health of an installation: its settings, the findings of ``oarpy doctor``, and the figures for monitoring.

A *finding* is one fault, with its cure. May import everything that ``oarpy.client`` may.
"""

from __future__ import annotations
