"""``oarpy db analyst``, ``oarpy report`` and ``oarpy export``; what past jobs tell whoever submits the next one.

May import ``oarpy.store``, ``oarpy.model`` and the client's own helpers; pyarrow and matplotlib where they are needed.
"""

from __future__ import annotations
