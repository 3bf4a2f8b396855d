"""What analysts and other programs read: roles that may, and rows for reports and exports.

- ``roles`` makes roles that read the views of ``oar_report`` and ``oar_compat``, and nothing else.

May import ``oarpy.store.database``, ``oarpy.store.past`` and ``oarpy.model``.
"""

from __future__ import annotations
