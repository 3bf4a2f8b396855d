"""What users ask for jobs that run: another walltime, and another window for reservations.

May import what ``oarpy.client`` may.
"""

from __future__ import annotations
