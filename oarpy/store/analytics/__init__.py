"""Data for analysts and other programs: roles that may read it, and rows for reports and exports.

- ``roles`` makes roles that read the views of ``oar_report`` and ``oar_compat``, and nothing else.
- ``report_rows`` has the queries of ``oarpy report``, ``export_rows`` the rows of ``oarpy export``.
- ``measured_use`` adds the processor time and memory of a job on its other nodes.
- ``gpu_uses`` has how busy the GPUs of jobs are.

May import ``oarpy.store.database``, ``oarpy.store.refusals``, ``oarpy.store.past`` and ``oarpy.model``.
"""

from __future__ import annotations
