"""Generated workloads: the Lublin-Feitelson model and ESP2, and ``generate``, which writes them as SWF.

May import ``traces``, the machine of ``engines``, the files of ``reports`` and ``oarpy.model``.
"""

from __future__ import annotations
