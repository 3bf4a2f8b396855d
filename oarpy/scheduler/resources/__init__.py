"""Resources as sets: the platform, its hierarchy, and which resources serve a request.

A *block* is the set of resources that share a value of a *level*; sets are integers used as bit sets. May import
``oarpy.model`` and its own modules.
"""

from __future__ import annotations
