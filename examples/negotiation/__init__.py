"""Applications that choose their own hosts, and grow and shrink while they run.

- ``sweep``: a parameter sweep that asks for the hosts on which it ends first; ``launcher.sh`` speaks without Python.
- ``stencil``: processes that compute together and divide their data anew when some join or leave.
- ``run_stencil`` runs it, on the hosts of a batch job, or on hosts that come and go.
- ``dask_squares`` computes with dask on one job that grows with the work. It needs the extra ``dask``.
"""

from __future__ import annotations
