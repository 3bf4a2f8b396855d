"""Commands that a shell would only pass on: a program with plain words. They are executed without starting the shell.

For a short job the start of its shell costs more than all that is done around it. What the shell would do more than
execute a program, or what it could do differently than foreseen here, is left to the shell.
"""

from __future__ import annotations

import os
import re

_SHELLS = frozenset({"sh", "dash", "bash"})

_PLAIN = re.compile(r"[A-Za-z0-9_./+-][A-Za-z0-9_./+:,@-]*(?:[ \t]+[A-Za-z0-9_./+:,@%=-]+)*", re.ASCII)
"""Nothing that a shell expands, and no assignment in the place of the program."""

_OWN_WORDS = """
    . : [ alias bg bind break builtin caller case cd chdir command compgen complete compopt continue coproc declare
    dirs disown do done echo elif else enable esac eval exec exit export false fc fg fi for function getopts hash help
    history if in jobs kill let local logout mapfile popd printf pushd pwd read readarray readonly return select set
    shift shopt source suspend test then time times trap true type typeset ulimit umask unalias unset until wait while
"""
"""What these shells do themselves."""
_OWN = frozenset(_OWN_WORDS.split())

_STARTUP = frozenset({"BASH_ENV", "BASHOPTS", "EXECIGNORE", "SHELLOPTS", "SSH2_CLIENT", "SSH_CLIENT"})
"""Variables which make bash read a file first (some builds: when it seems to be started by sshd) or act differently."""
_FUNCTION = "BASH_FUNC_"


def plain_command(command: str, shell: str, environment: dict[str, str]) -> tuple[str, list[str]] | None:
    """The program that ``shell -c command`` would execute in this place of the file system, and its arguments.

    None when it would do anything else, or when it is not certain. To be asked as the user who runs it.
    """
    if os.path.basename(shell) not in _SHELLS or not _PLAIN.fullmatch(command):
        return None
    words = command.split()
    if words[0] in _OWN or not _STARTUP.isdisjoint(environment) or not os.access(shell, os.X_OK):
        return None
    if _FUNCTION in " ".join(environment):
        return None
    program = _find(words[0], environment.get("PATH", ""))
    return None if program is None else (program, words)


def _find(word: str, path: str) -> str | None:
    if "/" in word:
        return word if _is_program(word) else None
    for directory in path.split(os.pathsep) if path else ():
        candidate = f"{directory or '.'}/{word}"
        if _is_program(candidate):
            return candidate
    return None


def _is_program(path: str) -> bool:
    return os.access(path, os.X_OK) and os.path.isfile(path)
