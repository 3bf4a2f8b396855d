"""Applications that choose their own hosts, and grow and shrink while they run.

- ``stencil``: processes that compute together and divide their data anew when some join or leave.
"""

from __future__ import annotations
