"""What a broker may ask of a cluster, declared once: every cluster answers it, and the door reads it from lines.

- ``table``: the calls, each with its fields, answer, ability and effect; ``Cluster`` is who answers.
- ``parts``: what calls are about, and what clusters tell. ``json_lines``: calls and answers as lines of JSON.

May import ``oarpy.model`` alone.
"""

from __future__ import annotations
