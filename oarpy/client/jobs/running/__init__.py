"""What users ask for jobs that run: another walltime, more hosts, fewer hosts; and another window for reservations.

May import what ``oarpy.client`` may.
"""

from __future__ import annotations
