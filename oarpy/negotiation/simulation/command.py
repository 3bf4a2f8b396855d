"""``oarpy negotiate``: read a file, run it, print its events."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from oarpy.model.errors import UsageError
from oarpy.negotiation.simulation.journal import Journal
from oarpy.negotiation.simulation.reader import read_workload
from oarpy.negotiation.simulation.run import NegotiationRun
from oarpy.simulation.scenarios.input_file import text_of


def run_negotiate(path: Path, out: TextIO) -> None:
    """Run the applications of a file and write a line for each thing that happens, then totals.

    Raises :class:`UsageError` before anything is written.
    """
    try:
        text = text_of(path)
    except UsageError as error:
        raise UsageError(f"{path}: {error.message}", hint=error.hint) from None
    workload = read_workload(text)
    journal = Journal(out, workload.ticks)
    journal.total(NegotiationRun(workload, journal.note).run())
