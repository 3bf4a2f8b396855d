"""Logs of equal jobs, for experiments that replay logs of clusters."""

from __future__ import annotations

from pathlib import Path

_DAY = 86400


def write_log(path: Path, days: int, a_day: int, procs: int, run: int) -> None:
    """Write a log of equal jobs that ask for twice their run time."""
    lines: list[str] = []
    for place in range(days * a_day):
        numbers = {0: place + 1, 1: place * _DAY // a_day, 3: run, 4: procs, 8: 2 * run}
        lines.append(" ".join(str(numbers.get(field, -1)) for field in range(18)))
    path.write_text("\n".join(lines) + "\n")


def write_logs_of_bags(folder: Path) -> None:
    """Write the logs of the experiment on bags with deadlines: one above its load, and others below theirs."""
    write_log(folder / "CTC-SP2-1996-3.1-cln.swf", 60, 24, 40, 60000)
    write_log(folder / "HPC2N-2002-2.2-cln.swf", 420, 1, 40, 200000)
    write_log(folder / "SDSC-SP2-1998-4.2-cln.swf", 60, 2, 32, 60000)
    write_log(folder / "LPC-EGEE-2004-1.2-cln.swf", 120, 10, 1, 200000)
    write_log(folder / "SDSC-BLUE-2000-4.2-cln.swf", 60, 1, 256, 100000)
