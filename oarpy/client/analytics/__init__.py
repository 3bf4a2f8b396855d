"""``oarpy db analyst``, ``oarpy report`` and ``oarpy export``; and advice for the next submission from past jobs.

May import ``oarpy.store``, ``oarpy.model`` and the client's own helpers; pyarrow and matplotlib where they are needed.
"""

from __future__ import annotations
