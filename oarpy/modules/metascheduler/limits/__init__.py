"""What bounds a pass: quotas and when they are valid, outages of resources, and how many jobs it looks at.

May import what ``oarpy.modules.metascheduler`` may.
"""

from __future__ import annotations
