"""Stop the embedded servers of clusters below a folder and delete their data, wherever it lies."""

from __future__ import annotations

import sys
from pathlib import Path

from oarpy.store import embedded

for cluster in Path(sys.argv[1]).glob("*/postgresql"):
    embedded.remove(cluster)
