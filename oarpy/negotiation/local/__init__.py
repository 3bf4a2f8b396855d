"""``oarpy demo --negotiate``: applications that negotiate on a cluster in one folder of this machine.

May import ``oarpy.local_cluster`` and the layers below it.
"""

from __future__ import annotations
