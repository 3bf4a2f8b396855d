"""``oarpy decide``: read questions, print answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TextIO

from oarpy.model.errors import UsageError
from oarpy.questions.table import answer
from oarpy.simulation.scenarios.input_file import text_of

_NO_QUESTION = 2


def run_decide(paths: Sequence[str], out: TextIO, err: TextIO) -> int:
    """Answer each file by one JSON object a line on ``out``; return the exit status.

    A file that is no question gets one line on ``err`` and the status 2; the others are still answered.
    """
    status = 0
    for path in paths:
        try:
            found = answer(text_of(path))
        except UsageError as error:
            err.write(f"{path}: {error}\n")
            status = _NO_QUESTION
            continue
        out.write(json.dumps(found) + "\n")
        out.flush()
    return status
