"""``oarpy negotiate``: read a file, run it, print what happens."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from oarpy.model.errors import UsageError
from oarpy.simulation.negotiation.journal import Journal
from oarpy.simulation.negotiation.reader import read_workload
from oarpy.simulation.negotiation.run import NegotiationRun


def run_negotiate(path: Path, out: TextIO) -> None:
    """Run the applications of a file and write a line for each thing that happens, then totals.

    Raises :class:`UsageError` before anything is written.
    """
    workload = read_workload(_text(path))
    journal = Journal(out, workload.ticks)
    journal.total(NegotiationRun(workload, journal.note).run())


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{path}: not UTF-8 text", hint="give a JSON file") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"{path}: cannot be read: {reason}", hint="give a JSON file") from None
