"""Tab completion for bash, zsh and fish, from the commands themselves: their words, and the kind of each value.

Values that change are asked of ``oarstat --complete KIND`` when the key is pressed. All others are in the script.
"""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from typer.core import TyperArgument, TyperGroup, TyperOption

from oarpy.client.boundary import Parser, parser
from oarpy.model.job_types import TYPES, Usable
from oarpy.model.states import JobState
from oarpy.store.jobs.job_listing import WORD_KINDS

_KINDS = {
    "JOB_ID": "jobs",
    "ID": "jobs",
    "ARRAY": "arrays",
    "USER": "users",
    "QUEUE": "queues",
    "PROJECT": "projects",
    "NODES": "nodes",
    "HOST": "nodes",
    "HOSTS": "nodes",
    "TYPE": "types",
    "SIGNAL": "signals",
    "FILE": "files",
    "DIRECTORY": "files",
    "DIR": "files",
    "CSV": "files",
    "SHELL": "shells",
    "REQUEST": "levels",
    "SQL": "properties",
    "NAME=VALUE": "properties",
    "PROP[,": "properties",
}
"""The kind of value by how help calls it."""

_BY_OPTION = {"--array": "arrays", "--properties": "properties"}
"""Kinds of values of options whose word of help says less."""

_NUMBER_OF = {"oarsub": frozenset({"--array"})}
"""Options that take a number here."""

_STATIC: Mapping[str, tuple[str, ...]] = {
    "jobs": ("last", *(f"state:{state}" for state in JobState)),
    "types": tuple(kind.name for kind in TYPES.values() if kind.usable is not Usable.NOWHERE),
    "signals": ("HUP", "INT", "QUIT", "KILL", "USR1", "USR2", "TERM", "CONT", "STOP"),
    "shells": ("bash", "zsh", "fish"),
}
"""Values that are known beforehand, also beside those that are asked for."""


@dataclass(frozen=True, slots=True)
class CommandWords:
    """The words that may follow ``path``, the kind of value of each option, and that of the arguments (empty: any)."""

    path: str
    words: tuple[str, ...]
    options: tuple[TyperOption, ...]
    kinds: Mapping[str, str]
    argument: str


def described(names: list[str] | None = None) -> list[CommandWords]:
    """Return all commands, with their subcommands."""
    return [_described(*node) for name in names or command_names() for node in tree(name)]


def command_names() -> list[str]:
    """Return the names of all commands."""
    return sorted(path.stem for path in Path(__file__).parent.glob("oar*.py"))


def tree(name: str) -> Iterator[tuple[str, Parser]]:
    """Yield a command and its subcommands, each with the words that run it."""
    yield from _below(name, parser(importlib.import_module(f"oarpy.commands.{name}").app))


def _below(path: str, command: object) -> Iterator[tuple[str, Parser]]:
    assert isinstance(command, Parser)
    yield path, command
    if isinstance(command, TyperGroup):
        for name, child in command.commands.items():
            yield from _below(f"{path} {name}", child)


def _described(path: str, command: Parser) -> CommandWords:
    """Subcommands come first: whether the first word is an option tells a group from a leaf."""
    options = tuple(param for param in command.params if isinstance(param, TyperOption) and not param.hidden)
    subcommands = sorted(command.commands) if isinstance(command, TyperGroup) else []
    spellings = [word for option in options for word in (*option.opts, *option.secondary_opts)]
    kinds = {
        word: kind for option in options if not option.is_flag for word in option.opts if (kind := _kind(path, option))
    }
    arguments = [param for param in command.params if isinstance(param, TyperArgument)]
    argument = _named_kind(arguments[0].metavar or "") if arguments else ""
    return CommandWords(path, (*subcommands, *dict.fromkeys((*spellings, "--help"))), options, kinds, argument)


def _kind(path: str, option: TyperOption) -> str:
    if not _NUMBER_OF.get(path, frozenset()).isdisjoint(option.opts):
        return ""
    named = [_BY_OPTION[word] for word in option.opts if word in _BY_OPTION]
    return named[0] if named else _named_kind(option.metavar or "")


def _named_kind(metavar: str) -> str:
    """Return the kind of value that a word of help stands for; ``a|b`` is a choice, which is a kind of its own."""
    word = metavar.strip("[]").removesuffix("...")
    if "|" in word and "[" not in word and "." not in word:
        return word
    return _KINDS.get(word, "")


def _values(kind: str) -> tuple[str, ...]:
    return tuple(kind.split("|")) if "|" in kind else _STATIC.get(kind, ())


def _tables(commands: list[CommandWords]) -> dict[str, str]:
    """Return the entries of the tables of a script for bash or zsh."""
    kinds = {f"{command.path} {option}": kind for command in commands for option, kind in command.kinds.items()}
    kinds |= {command.path: command.argument for command in commands if command.argument}
    values = {kind: " ".join(_values(kind)) for kind in sorted(set(kinds.values())) if _values(kind)}
    return {
        "words": _entries({command.path: " ".join(command.words) for command in commands}),
        "kinds": _entries(kinds),
        "values": _entries(values),
        "asked": " ".join(WORD_KINDS),
        "names": " ".join(command.path for command in commands if " " not in command.path),
    }


def _entries(table: Mapping[str, str]) -> str:
    return "".join(f"[{shlex.quote(key)}]={shlex.quote(value)}\n" for key, value in table.items())


_BASH = """\
# bash completion of the commands of oarpy; source it, or save it as a file of /etc/bash_completion.d
declare -gA _oarpy_words=(
{words})
declare -gA _oarpy_kinds=(
{kinds})
declare -gA _oarpy_values=(
{values})

_oarpy_complete() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} path=${{1##*/}}
    local index kind candidates begun= amount=
    for ((index = 1; index < COMP_CWORD; index++)); do
        if [[ -n ${{_oarpy_words["$path ${{COMP_WORDS[index]}}"]+known}} ]]; then
            path+=" ${{COMP_WORDS[index]}}"
        fi
    done
    # bash takes --name=value and state:value apart
    if [[ $word == [=:] ]]; then
        previous=${{COMP_WORDS[COMP_CWORD]}} word=
        index=$COMP_CWORD
    else
        index=$((COMP_CWORD - 1))
    fi
    if [[ $previous == : ]]; then
        kind=${{COMP_WORDS[index-1]}}s
    else
        # an option stands before =, or before all of /nodes=2/core=1
        while [[ $previous == = ]] && ((index > 1)); do
            previous=${{COMP_WORDS[--index]}}
            [[ $previous == -* ]] || amount=1 previous=${{COMP_WORDS[--index]}}
        done
        kind=${{_oarpy_kinds["$path $previous"]}}
    fi
    if [[ -z $kind && ($word == -* || ${{_oarpy_words[$path]}} != -*) ]]; then
        candidates=${{_oarpy_words[$path]}}
    else
        kind=${{kind:-${{_oarpy_kinds[$path]}}}}
        [[ $kind == states ]] && candidates=${{_oarpy_values[jobs]//state:/}}
        [[ -n $kind ]] && candidates+=" ${{_oarpy_values[$kind]}}"
        [[ " {asked} " == *" $kind "* ]] && candidates+=" $(oarstat --complete "$kind" 2>/dev/null)"
    fi
    if [[ $kind == levels ]]; then
        # behind the levels that are there already
        begun=${{word%"${{word##*[/,+]}}"}}
        [[ $amount && -z $begun ]] && candidates=
    fi
    COMPREPLY=($(compgen -P "$begun" -W "$candidates" -- "${{word#"$begun"}}"))
    # an amount follows
    [[ ${{COMPREPLY[0]}} == *= ]] && compopt -o nospace 2>/dev/null
}}
complete -o default -F _oarpy_complete {names}
"""

_ZSH = """\
#compdef {names}
# zsh completion of the commands of oarpy; source it after compinit, or save it as _oarpy in a folder of $fpath
typeset -gA _oarpy_words _oarpy_kinds _oarpy_values
_oarpy_words=(
{words})
_oarpy_kinds=(
{kinds})
_oarpy_values=(
{values})

_oarpy() {{
    local command=${{words[1]:t}} word=${{words[CURRENT]}} previous=${{words[CURRENT-1]}} index key kind
    local -a candidates
    for ((index = 2; index < CURRENT; index++)); do
        key="$command ${{words[index]}}"
        (( ${{+_oarpy_words[$key]}} )) && command=$key
    done
    if [[ $word == --*=* ]]; then
        previous=${{word%%=*}}
        compset -P '*='
    fi
    key="$command $previous"
    kind=${{_oarpy_kinds[$key]}}
    if [[ -z $kind && ($word == -* || ${{_oarpy_words[$command]}} != -*) ]]; then
        candidates=(${{=_oarpy_words[$command]}})
    else
        kind=${{kind:-${{_oarpy_kinds[$command]}}}}
        candidates=(${{=_oarpy_values[$kind]}})
        [[ " {asked} " == *" $kind "* ]] && candidates+=($(oarstat --complete $kind 2>/dev/null))
    fi
    if (( ${{#candidates}} )); then
        # an amount follows a level
        if [[ $kind == levels ]]; then
            compset -P '*[/,+]'
            compadd -S '' -- $candidates
        else
            compadd -- $candidates
        fi
    else
        _files
    fi
}}
compdef _oarpy {names}
"""


def bash_script() -> str:
    """Return the script for bash."""
    return _BASH.format(**_tables(described()))


def zsh_script() -> str:
    """Return the script for zsh."""
    return _ZSH.format(**_tables(described()))


def fish_script() -> str:
    """Return the script for fish: a line for each option, with its help, and one for the arguments."""
    lines = ["# fish completion of the commands of oarpy; source it, or save it in ~/.config/fish/completions"]
    for command in described():
        name, *below = command.path.split()
        subcommands = [word for word in command.words if not word.startswith("-")]
        conditions = [f"__fish_seen_subcommand_from {word}" for word in below]
        if subcommands:
            conditions.append(f"not __fish_seen_subcommand_from {' '.join(subcommands)}")
        start = f"complete -c {name}" + (f" -n {_fish_quoted('; and '.join(conditions))}" if conditions else "")
        if subcommands:
            lines.append(f"{start} -f -a {_fish_quoted(' '.join(subcommands))}")
        elif offered := _fish_values(command.argument):
            lines.append(f"{start} -f -a {offered}")
        lines += [_fish_option(start, option, command.kinds) for option in command.options]
    return "\n".join(lines) + "\n"


def _fish_option(start: str, option: TyperOption, kinds: Mapping[str, str]) -> str:
    names = "".join(
        f" -l {word[2:]}" if word.startswith("--") else f" -s {word[1:]}"
        for word in (*option.opts, *option.secondary_opts)
    )
    kind = kinds.get(option.opts[0], "")
    takes = "" if option.is_flag else " -r" if kind in ("", "files") else f" -x -a {_fish_values(kind)}"
    return f"{start}{names}{takes} -d {_fish_quoted(option.help or '')}"


def _fish_values(kind: str) -> str:
    live = [f"(oarstat --complete {kind} 2>/dev/null)"] if kind in WORD_KINDS else []
    words = [*_values(kind), *live]
    return _fish_quoted(" ".join(words)) if words else ""


def _fish_quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


SCRIPTS: Mapping[str, Callable[[], str]] = {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}
"""The function that makes the script of each shell."""
