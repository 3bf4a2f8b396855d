"""The pure core: ``plan(snapshot) -> Plan``. No I/O, no clock, no global; imports only ``oarpy.model``."""

from __future__ import annotations
