"""Tab completion for bash: one script with the words of all commands; ``oarstat`` tells it the jobs of the user."""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Iterator
from pathlib import Path

from typer.core import TyperArgument, TyperGroup, TyperOption

from oarpy.client.boundary import Parser, parser

_JOB_OPTIONS = frozenset({"-j", "--job", "-a", "--anterior", "--after", "--resubmit", "--why", "--priority"})
"""Options whose value is the id of a job."""

_SCRIPT = """\
# bash completion of the commands of oarpy; source it, or save it as a file of /etc/bash_completion.d
declare -gA _oarpy_words=(
{words})
declare -gA _oarpy_job_options=(
{job_options})
declare -gA _oarpy_takes_jobs=(
{takes_jobs})

_oarpy_complete() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} path=${{1##*/}} index candidates
    for ((index = 1; index < COMP_CWORD; index++)); do
        if [[ -n ${{_oarpy_words["$path ${{COMP_WORDS[index]}}"]+known}} ]]; then
            path+=" ${{COMP_WORDS[index]}}"
        fi
    done
    if [[ " ${{_oarpy_job_options[$path]}} " == *" $previous "* || (
        $word != -* && -n ${{_oarpy_takes_jobs[$path]}}) ]]; then
        candidates=$(oarstat -u --format ids 2>/dev/null)
    elif [[ $word == -* || ${{_oarpy_words[$path]}} != -* ]]; then
        candidates=${{_oarpy_words[$path]}}
    fi
    COMPREPLY=($(compgen -W "$candidates" -- "$word"))
}}
complete -o default -F _oarpy_complete {names}
"""


def bash_script() -> str:
    """Return the script. It is complete in itself: only job ids are asked for when it is used."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("oar*.py"))
    nodes = [node for name in names for node in tree(name)]
    words = {path: _words(command) for path, command in nodes}
    job_options = {path: [one for one in words[path] if one in _JOB_OPTIONS] for path, _ in nodes}
    takes_jobs = {path: ["yes"] if _takes_jobs(command) else [] for path, command in nodes}
    return _SCRIPT.format(
        words=_entries(words), job_options=_entries(job_options), takes_jobs=_entries(takes_jobs), names=" ".join(names)
    )


def tree(name: str) -> Iterator[tuple[str, Parser]]:
    """Yield a command and its subcommands, each with the words that run it."""
    yield from _below(name, parser(importlib.import_module(f"oarpy.commands.{name}").app))


def _below(path: str, command: object) -> Iterator[tuple[str, Parser]]:
    assert isinstance(command, Parser)
    yield path, command
    if isinstance(command, TyperGroup):
        for name, child in command.commands.items():
            yield from _below(f"{path} {name}", child)


def _words(command: Parser) -> list[str]:
    """Subcommands come first: whether the first word is an option tells a group from a leaf."""
    subcommands = sorted(command.commands) if isinstance(command, TyperGroup) else []
    options = [
        spelling
        for one in command.params
        if isinstance(one, TyperOption)
        for spelling in (*one.opts, *one.secondary_opts)
    ]
    return [*subcommands, *options, "--help"]


def _takes_jobs(command: Parser) -> bool:
    return any(isinstance(one, TyperArgument) and (one.metavar or "").startswith("JOB_ID") for one in command.params)


def _entries(table: dict[str, list[str]]) -> str:
    return "".join(f"[{shlex.quote(path)}]={shlex.quote(' '.join(words))}\n" for path, words in table.items() if words)
