"""What analysts and other programs read: roles that may, and rows for reports and exports.

- ``roles`` makes roles that read the views of ``oar_report`` and ``oar_compat``, and nothing else.
- ``report_rows`` has the queries of ``oarpy report``, ``export_rows`` what ``oarpy export`` writes.
- ``measured_use`` adds what other nodes of a job tell of its processors and memory.

May import ``oarpy.store.database``, ``oarpy.store.refusals``, ``oarpy.store.past`` and ``oarpy.model``.
"""

from __future__ import annotations
