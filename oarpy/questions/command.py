"""``oarpy decide``: read questions, print answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TextIO

from oarpy.questions.table import answer
from oarpy.simulation.scenarios.input_file import answer_files, text_of


def run_decide(paths: Sequence[str], out: TextIO, err: TextIO) -> int:
    """Answer each file by one JSON object a line on ``out``; return the exit status.

    A file that is no question gets one line on ``err`` and the status 2; the others are still answered.
    """
    return answer_files(paths, out, err, lambda path: answer(text_of(path)), json.dumps)
