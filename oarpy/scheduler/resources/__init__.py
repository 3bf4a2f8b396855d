"""Resources as sets: the platform, its hierarchy, and the matching of requests to resources.

- ``platform``: resources and their properties. ``hierarchy_trees``: blocks inside blocks.
- ``matching``: finds resources that serve a request. ``consumables``: amounts that jobs divide among themselves.
- ``bit_sets``, ``block_counting``, ``block_requirements``: sets as integers, and counting in many blocks at once.

A *block* is the set of resources that share a value of a *level*; sets are integers used as bit sets. May import
``oarpy.model`` and its own modules.
"""

from __future__ import annotations
