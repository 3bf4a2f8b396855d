"""A whole cluster in one folder of this machine, for demos, tests and benchmarks.

Uses the commands of the installation as a user would; may import ``oarpy.postgres``, ``oarpy.transport``,
``oarpy.model``.
"""

from __future__ import annotations
