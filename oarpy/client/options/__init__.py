"""Options that several commands share.

``optional_values``: options whose value may be left out. ``documents``: the forms of output beside JSON.
``ssh_options``: the options of commands that stand in for ssh. May import ``oarpy.client.rendering``.
"""

from __future__ import annotations
