"""Stop the embedded servers of clusters below a folder and delete their data, wherever it lies."""

from __future__ import annotations

import sys
from pathlib import Path

from oarpy.postgres import embedded_server

for cluster in Path(sys.argv[1]).glob("*/postgresql"):
    embedded_server.remove(cluster)
