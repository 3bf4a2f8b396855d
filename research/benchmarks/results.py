"""The files of measurements: ``research/benchmarks/results/NAME.json`` of the present checkout."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path


def save(name: str, report: Mapping[str, object]) -> None:
    """Write a report with the date and the machine it is of; nothing outside a checkout."""
    folder = Path("research/benchmarks")
    if not folder.is_dir():
        return
    (folder / "results").mkdir(exist_ok=True)
    machine = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "load": os.getloadavg()[0],
    }
    text = json.dumps({**machine, **report}, indent=2, default=str)
    (folder / "results" / f"{name}.json").write_text(text + "\n", encoding="utf-8")
