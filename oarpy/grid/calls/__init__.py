"""The calls that a broker makes to a cluster, declared once for the clusters and the door.

- ``table``: the calls, each with its fields, answer, ability and effect; a ``Cluster`` answers them.
- ``parts``: the values in calls and answers. ``json_lines``: calls and answers as lines of JSON.

May import ``oarpy.model`` alone.
"""

from __future__ import annotations
