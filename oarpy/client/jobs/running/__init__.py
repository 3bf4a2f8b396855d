"""Requests of users about running jobs: another walltime, and another window for reservations.

May import the packages that ``oarpy.client`` may.
"""

from __future__ import annotations
