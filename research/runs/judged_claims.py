"""The claims of a paper, the values found, and whether the claims hold: as lines, CSV, JSON and an exit status."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TextIO

from oarpy.simulation.reports.output_files import write_file

_COLUMNS = ("claim", "paper", "ours", "judged", "holds")

Found = tuple[str, bool] | None
"""What runs give for a claim, as text, and whether it holds; None where runs are missing."""


@dataclass(frozen=True, slots=True)
class JudgedClaim:
    """A claim, what the paper has and what was found, and whether it ``holds``; ``-`` where runs are missing.

    Only what is ``judged`` decides about the exit status.
    """

    claim: str
    paper: str
    ours: str
    judged: bool
    holds: Literal["yes", "no", "-"]

    def cells(self) -> dict[str, str]:
        """Return it as texts by column."""
        judged = "yes" if self.judged else "no"
        return dict(zip(_COLUMNS, (self.claim, self.paper, self.ours, judged, self.holds), strict=True))


def verdict(holds: bool) -> Literal["yes", "no"]:
    """Return the word for whether something holds."""
    return "yes" if holds else "no"


def judged_claim(claim: str, paper: str, found: Found, *, judged: bool) -> JudgedClaim:
    """Return a claim with what was ``found``."""
    if found is None:
        return JudgedClaim(claim, paper, "not run", judged, "-")
    ours, holds = found
    return JudgedClaim(claim, paper, ours, judged, verdict(holds))


def report_of_claims(
    folder: Path, claims: Sequence[JudgedClaim], *, failed: bool, quick: bool, as_json: bool
) -> tuple[str, int]:
    """Write the claims into a folder; return them as text, and the exit status: 1 if a run ``failed``.

    A ``quick`` call judges nothing. Raises :class:`OarpyError` when the file cannot be written.
    """
    write_claims(folder / "claims.csv", claims)
    return claims_text(claims, as_json=as_json), 1 if failed else 0 if quick else status(claims)


def status(claims: Sequence[JudgedClaim]) -> int:
    """Return the exit status: 1 if a judged claim does not hold."""
    return int(any(claim.judged and claim.holds == "no" for claim in claims))


def write_claims(path: Path, claims: Sequence[JudgedClaim]) -> None:
    """Write the claims as CSV. Raises :class:`OarpyError` when it cannot be written."""

    def rows(file: TextIO) -> None:
        writer = csv.DictWriter(file, _COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(claim.cells() for claim in claims)

    write_file(path, rows)


def claims_text(claims: Sequence[JudgedClaim], *, as_json: bool) -> str:
    """Return the claims a line each, or as JSON."""
    if as_json:
        return json.dumps({"claims": [claim.cells() for claim in claims]}, indent=1) + "\n"
    return "".join(
        f"{claim.claim}: {'holds' if claim.holds == 'yes' else 'does not hold' if claim.holds == 'no' else 'not run'}"
        f"{'' if claim.judged else ' (not judged)'}; paper: {claim.paper}; ours: {claim.ours}\n"
        for claim in claims
    )
