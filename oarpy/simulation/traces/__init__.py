"""Workloads that were recorded: SWF files, the site's own past, the usage before an instant.

``trace`` is what a replay takes, ``swf`` reads and writes it; ``past`` has jobs as they were asked for, ``past_usage``
who used how much lately. May import the machine of ``engines``, ``oarpy.scheduler`` and ``oarpy.model``.
"""

from __future__ import annotations
