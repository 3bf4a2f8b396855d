"""Lines of a batch mean what the same words mean after ``oarsub``."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from oarpy.commands import oarsub
from typer import Context

from oarpy.client.boundary import parser
from oarpy.client.submission.batch.lines import read_words
from oarpy.client.submission.options import Options
from oarpy.model.errors import UsageError
from oarpy.model.submission import OPTIONS

UNDERSTOOD = [
    "date",
    "-n name date",
    "-nname date",
    "--name=name date +%s",
    "-l /core=1 -l /nodes=2 -t a --type b date",
    "-S -k ./script",
    "-kS ./script",
    "date -n name",
    "-n a 'sleep 1; date' --hold",
    "-- date -n name",
    "-n a -- date -n b",
    "echo - a",
    "-t deploy -l /nodes=1 -p \"host = 'n1'\" --array 3 --notify '[END]mail:a' prog a b",
    "-n '' date",
    "-S --ignore-directives ./job.sh",
]
REFUSED = ["-n", "--nodes 2 date", "-Z date", "echo a -n b", "date -n a b", "--hold=yes date", "echo a b -x"]


def typed(words: list[str]) -> Options:
    """What ``oarsub`` itself reads of the words."""
    command: Any = parser(oarsub.app)
    context = Context(command, info_name="oarsub", **command.context_settings)
    command.parse_args(context, list(words))
    given = {name: context.params[name] for name in OPTIONS}
    return Options(
        words=tuple(context.params["command"] or ()),
        texts={name: value for name, value in given.items() if isinstance(value, str)},
        lists={name: tuple(value) for name, value in given.items() if isinstance(value, list | tuple) and value},
        flags=frozenset(name for name, value in given.items() if value is True),
        scan_script=context.params["scanscript"],
        ignore_directives=context.params["ignore_directives"],
    )


@pytest.mark.parametrize("line", UNDERSTOOD)
def test_a_line_is_read_as_oarsub_reads_it(line: str) -> None:
    words = shlex.split(line)
    assert read_words(words) == typed(words)
    assert typed(list(read_words(words).arguments())) == read_words(words), "what is kept as typed means the same"


@pytest.mark.parametrize("line", REFUSED)
def test_a_line_is_refused_as_oarsub_refuses_it(line: str) -> None:
    words = shlex.split(line)
    with pytest.raises(UsageError):
        read_words(words)
    with pytest.raises(Exception, match=r"option|Option|order|requires|value"):
        typed(words)
