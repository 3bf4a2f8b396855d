"""The command line of ``oarsub``: where options may stand, and messages about options of other schedulers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, Final

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
"""Names of options in other schedulers, and their counterparts here."""

_FIRST = ("interactive", "alternatives", "properties", "queue", "types", "name")
"""The most used options, which come first in the help."""


def with_options(names: Collection[str]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a function the options that fill these fields of a submission; its last parameter takes their values."""
    ordered = [*(name for name in _FIRST if name in names), *(name for name in names if name not in _FIRST)]

    def give(function: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(function, eval_str=True)
        *own, _ = signature.parameters.values()
        function.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[*own[:1], *map(_parameter, ordered), *own[1:]]
        )
        return function

    return give


def given_options(values: Mapping[str, Any]) -> Options:
    """Return the options that a command was given."""
    return Options(
        texts={name: value for name, value in values.items() if isinstance(value, str)},
        lists={name: tuple(value) for name, value in values.items() if isinstance(value, list | tuple) and value},
        flags=frozenset(name for name, value in values.items() if value is True),
    )


def _sentence(text: str) -> str:
    """Return the meaning of an option as help has it: a capital first, a full stop last."""
    return f"{text[0].upper()}{text[1:]}."


def _parameter(name: str) -> inspect.Parameter:
    """Return the command's parameter for an option of the submission."""
    option = OPTIONS[name]
    kind: Any = list[str] if option.repeated else str
    kind, default = (kind | None, None) if option.metavar else (bool, False)
    shown = typer.Option(*option.words, metavar=option.metavar or None, help=_sentence(option.help))
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, shown])


class OarsubCommand(DocumentCommand):
    """Options stand before the command, or behind its only word: a word after an option could belong to either."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Refuse options that could belong to the command as well, then parse as usual."""
        try:
            self._check_order(ctx, args)
            return super().parse_args(ctx, args)
        except typer.TyperException as error:
            name = getattr(error, "option_name", None)
            if name in ELSEWHERE:
                raise UsageError(f"there is no option {name}", hint=ELSEWHERE[name]) from None
            raise

    def format_epilog(self, ctx: Context, formatter: Any) -> None:  # type: ignore[override]
        """Write the job types behind the options."""
        with formatter.section("Job types"):
            formatter.write_dl(
                [(", ".join(kind.spellings), kind.help) for kind in TYPES.values() if kind.usable is not Usable.NOWHERE]
            )

    def _check_order(self, ctx: Context, args: list[str]) -> None:
        """Raise :class:`UsageError` for an option behind several words, and for a word behind such an option."""
        words = self._after_options(ctx, args)
        if len(words) < 2:
            return
        if _is_option(words[1]):
            behind = self._after_options(ctx, words[1:])
            if behind:
                raise UsageError(f"'{behind[0][:60]}' after the options behind '{words[0][:60]}'", hint=_ORDER)
            return
        for place, word in enumerate(words):
            if word == "--":
                return
            if _is_option(word):
                typed = " ".join(words[:place])
                raise UsageError(f"option '{word[:60]}' after the words '{typed[:60]}'", hint=_ORDER)

    def _after_options(self, ctx: Context, args: list[str]) -> list[str]:
        """Return the words behind the options at the beginning; none behind ``--``, where all is the command's."""
        parser = self.make_parser(ctx)
        parser.allow_interspersed_args = False
        values, rest, _ = parser.parse_args(list(args))
        words = [*(values.get("command") or ()), *rest]
        start = len(args) - len(words)
        return [] if start and args[start - 1] == "--" else words


_ORDER = "put options first; for those of the command itself: oarsub [OPTIONS] -- COMMAND [ARGUMENT...]"


def _is_option(word: str) -> bool:
    return word.startswith("-") and word not in ("-", "--")
