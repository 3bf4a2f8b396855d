"""One file per command: parse, call ``oarpy.client``, render."""

from __future__ import annotations
