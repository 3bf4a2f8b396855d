"""The lines of other schedulers at the head of a script."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Final, Protocol

from oarpy.client.submission.directives import pbs, slurm
from oarpy.client.submission.directives.translation import Indispensable, Names, NotTranslated, Translation
from oarpy.client.submission.options import Options
from oarpy.model.errors import UsageError


class _Dialect(Protocol):
    """The common interface of ``slurm`` and ``pbs``."""

    def words(self, line: str) -> Iterator[tuple[str, str, str]]:
        """Yield each option of a line: as written, its name, its value."""

    def translate(self, translation: Translation, name: str, value: str) -> str:
        """Add one option to the request."""


DIALECTS: Final[Mapping[str, _Dialect]] = {"#SBATCH": slurm, "#PBS": pbs}
_LINE = re.compile(r"(#SBATCH|#PBS)\s", re.ASCII)


def read_directives(
    path: str, lines: Sequence[str], user: str, names: Names, *, job_name: str = "", strict: bool = True
) -> tuple[Options, list[str], tuple[str, ...]]:
    """Return the options that the lines make, a complaint for each line that is left out, and the lines themselves.

    They stand before the first command. In a script with lines of both kinds, the kind that comes first counts.
    ``names`` has the site's names; a ``job_name`` wins over that of the lines. If ``strict``, raises
    :class:`UsageError` for a line that says how much the job needs, or where, and has no counterpart.
    """
    translation = Translation(user, names, PurePath(path).name, job_name)
    kind, kept, complaints = "", [], list[str]()
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.startswith("#"):
            break
        match = _LINE.match(line)
        if match is None:
            continue
        where = f"{path}, line {number}"
        if kind and match[1] != kind:
            complaints.append(f"{where}: {match[1]} beside {kind}, whose lines count")
            continue
        kind = match[1]
        kept.append(line.rstrip())
        complaints += _translated(translation, kind, line, where, strict=strict)
    return translation.options(), complaints, tuple(kept)


def _translated(translation: Translation, kind: str, line: str, where: str, *, strict: bool) -> Iterator[str]:
    """Translate a line; yield its lost parts. Raises as :func:`read_directives`."""
    written = line.removeprefix(kind).strip()
    try:
        for written, name, value in DIALECTS[kind].words(line):
            try:
                lost = DIALECTS[kind].translate(translation, name, value)
            except NotTranslated as reason:
                if strict and isinstance(reason, Indispensable):
                    problem = str(reason) or "it has no counterpart here"
                    raise UsageError(f"{where}: {kind} {written[:80]}: {problem}", hint=_HINT) from None
                lost = f"it is left out: {reason}" if str(reason) else "it is left out"
            if lost:
                yield f"{where}: {kind} {written[:80]}: {lost}"
    except NotTranslated as reason:
        yield f"{where}: {kind} {written[:80]}: it is left out: {reason}"


_HINT = "change the line, give -l, or leave such lines out: --ignore-directives"
