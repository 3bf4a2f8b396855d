"""Options that several commands have alike.

``optional_values``: those whose value may be left out. ``documents``: the forms of output beside JSON. ``ssh_options``:
those of commands that stand in for ssh. May import ``oarpy.client.rendering``.
"""

from __future__ import annotations
