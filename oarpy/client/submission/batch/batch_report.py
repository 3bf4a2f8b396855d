"""The output of ``oarsub --batch``: a line for each line, in their order."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from oarpy.client.submission import report
from oarpy.client.submission.batch.batch_submission import BatchRefused
from oarpy.client.submission.batch.lines import Batch
from oarpy.client.submission.submission import Submitted


def text(submitted: Sequence[Submitted]) -> str:
    """Return ``OAR_JOB_ID=N`` for each line with one job, ``OAR_ARRAY_ID=N`` for one with an array."""
    return "".join(
        f"OAR_ARRAY_ID={answer.array_id}\n" if answer.is_array else f"OAR_JOB_ID={answer.job_ids[0]}\n"
        for answer in submitted
    )


def json_lines(batch: Batch, submitted: Sequence[Submitted]) -> str:
    """Return an object for each line: its number as ``line``, and the output of ``oarsub -J``."""
    return "".join(
        json.dumps({"line": line.number, **report.record(answer, (), verbose=False)}, ensure_ascii=False) + "\n"
        for line, answer in zip(batch.lines, submitted, strict=True)
    )


def remarks(submitted: Sequence[Submitted]) -> Iterator[str]:
    """Yield the notes of rules and the warnings, each once, as lines for people."""
    yield from dict.fromkeys(note for answer in submitted for note in answer.notes)
    yield from dict.fromkeys(f"# {warning}" for answer in submitted for warning in answer.warnings)


def fault_lines(path: str, refused: BatchRefused) -> Iterator[str]:
    """Yield a line for each line that is wrong."""
    name = "standard input" if path == "-" else path
    for number, error in refused.faults.items():
        yield f"oarsub: {name}, line {number}: {error}"
