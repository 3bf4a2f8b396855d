"""The calls that a broker makes to a cluster, declared once: every cluster answers them, the door reads them from lines.

- ``table``: the calls, each with its fields, answer, ability and effect; a ``Cluster`` answers them.
- ``parts``: the values in calls and answers. ``json_lines``: calls and answers as lines of JSON.

May import ``oarpy.model`` alone.
"""

from __future__ import annotations
