"""Recorded workloads: SWF files, the site's own past, the usage before an instant.

``trace`` is the input of a replay, ``swf`` reads and writes it. ``past`` has jobs with their original requests,
``past_usage`` the recent usage of users. May import the machine of ``engines``, ``oarpy.scheduler`` and
``oarpy.model``.
"""

from __future__ import annotations
