"""The command line of ``oarsub``: where options may stand, and what is said of options of other schedulers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

import typer
from typer import Context

from oarpy.client.options.documents import DocumentCommand
from oarpy.client.submission.options import Options
from oarpy.model.errors import UsageError
from oarpy.model.job_types import TYPES, Usable
from oarpy.model.submission import OPTIONS

_WALLTIME = "the walltime is a part of -l: -l nodes=1,walltime=1:0:0"

ELSEWHERE: Final = {
    "--walltime": _WALLTIME,
    "--time": _WALLTIME,
    "-N": "-n NAME names the job, -l nodes=2 asks for nodes; -J prints JSON",
    "-A": "write --project PROJECT",
    "-c": "write -l nodes=1/core=4",
    "-o": "write -O FILE",
    "--nodes": "write -l nodes=2",
    "--ntasks": "write -l core=4",
    "--cpus-per-task": "write -l nodes=1/core=4",
    "--mem": "write -l nodes=1,memory=16G where memory is a consumable",
    "--gres": "write -l with the site's property: oarproperty --list",
    "--gpus": "write -l with the site's property: oarproperty --list",
    "--exclusive": "write -l nodes=1: all of a node",
    "--partition": "write -q QUEUE, or a condition after -p",
    "--account": "write --project PROJECT",
    "--job-name": "write -n NAME",
    "--output": "write -O FILE",
    "--error": "write -E FILE",
    "--chdir": "write -d DIRECTORY",
    "--dependency": "write -a ID or -a ok:ID",
    "--begin": "write -t postpone=DATE",
    "--deadline": "write -t deadline=DATE",
    "--mail-user": "write --notify mail:ADDRESS",
    "--mail-type": "write --notify '[END]mail:ADDRESS'",
    "--wrap": "give the command itself",
}
"""What other schedulers call an option, and how it is said here."""


class OarsubCommand(DocumentCommand):
    """Options stand before the command, or behind its only word: a word after an option could belong to either."""

    def batch_line(self, words: Sequence[str]) -> Options:
        """Return what a line of a batch asks for; raise :class:`UsageError`."""
        parser, before = self._line_parsers
        try:
            values, rest, _ = parser.parse_args(list(words))
            _check_order(before, words)
        except typer.TyperException as error:
            raise _elsewhere(error) or UsageError(error.format_message().rstrip(".")) from None
        scan, command = bool(values.pop("scanscript", False)), values.pop("command", None) or ()
        if others := sorted(values.keys() - OPTIONS.keys()):
            raise UsageError(f"--{others[0].replace('_', '-')} in a batch", hint="a line says what a job is, no more")
        return Options(
            words=(*command, *rest),
            texts={name: value for name, value in values.items() if isinstance(value, str)},
            lists={name: tuple(value) for name, value in values.items() if isinstance(value, list)},
            flags=frozenset(name for name, value in values.items() if value is True),
            scan_script=scan,
        )

    @cached_property
    def _line_parsers(self) -> tuple[Any, Any]:
        """What reads all options, and what reads those before the first word."""
        parser, before = (self.make_parser(Context(self, info_name=self.name)) for _ in range(2))
        before.allow_interspersed_args = False
        return parser, before

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Refuse what could be meant for the command as well, then parse as usual."""
        try:
            before = self.make_parser(ctx)
            before.allow_interspersed_args = False
            _check_order(before, args)
            return super().parse_args(ctx, args)
        except typer.TyperException as error:
            if told := _elsewhere(error):
                raise told from None
            raise

    def format_epilog(self, ctx: Context, formatter: Any) -> None:  # type: ignore[override]
        """Write the job types behind the options."""
        with formatter.section("Job types"):
            formatter.write_dl(
                [(", ".join(kind.spellings), kind.help) for kind in TYPES.values() if kind.usable is not Usable.NOWHERE]
            )


def _elsewhere(error: typer.TyperException) -> UsageError | None:
    """Return what is said of an option that other schedulers have."""
    name = getattr(error, "option_name", None)
    return UsageError(f"there is no option {name}", hint=ELSEWHERE[name]) if name in ELSEWHERE else None


def _check_order(before: Any, args: Sequence[str]) -> None:
    """Raise :class:`UsageError` for an option behind several words, and for a word behind such an option."""
    words = _after_options(before, args)
    if len(words) < 2:
        return
    if _is_option(words[1]):
        behind = _after_options(before, words[1:])
        if behind:
            raise UsageError(f"'{behind[0][:60]}' after the options behind '{words[0][:60]}'", hint=_ORDER)
        return
    for place, word in enumerate(words):
        if word == "--":
            return
        if _is_option(word):
            typed = " ".join(words[:place])
            raise UsageError(f"option '{word[:60]}' after the words '{typed[:60]}'", hint=_ORDER)


def _after_options(before: Any, args: Sequence[str]) -> list[str]:
    """Return the words behind the options at the beginning; none behind ``--``, where all is the command's."""
    values, rest, _ = before.parse_args(list(args))
    words = [*(values.get("command") or ()), *rest]
    start = len(args) - len(words)
    return [] if start and args[start - 1] == "--" else words


_ORDER = "put options first; for those of the command itself: oarsub [OPTIONS] -- COMMAND [ARGUMENT...]"


def _is_option(word: str) -> bool:
    return word.startswith("-") and word not in ("-", "--")
