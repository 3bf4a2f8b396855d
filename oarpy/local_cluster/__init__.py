"""A whole cluster in one folder of this machine, for demos, tests and benchmarks.

``sandbox`` makes, runs and removes such a cluster; ``demo``, ``gpu_demo`` and ``mapping_demo`` are ``oarpy demo``,
``own_cluster`` is ``oarpy try``.
They use the commands of the installation as a user would, and set it up by ``oarpy.client.installation``. May import
``oarpy.client`` and everything below it.
"""

from __future__ import annotations
