"""Options that several commands have alike.

``optional_values``: those whose value may be left out. ``documents``: the forms of output beside JSON. May import
``oarpy.client.rendering``.
"""

from __future__ import annotations
