"""Entering a job by its key, from a host that has no gateway of its cluster; and copying files to and from a job.

``oarsh -i KEY HOST`` is ``ssh`` with that key: the node lets its owner into the job, and nowhere else. ``oarcp`` is
``scp`` with ``oarsh`` in the place of ``ssh``.
"""

from __future__ import annotations

import getopt
import os
import shutil
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

KEY_FILE = "OAR_JOB_KEY_FILE"
"""Names the key of a job: of the one that one is in, or is to be entered."""

_FAILED = 1
_OWN_LONG = ["job=", "terminal", "no-input", "json", "help"]
_PASSED = frozenset(("-l", "-p", "-o", "-t", "-n", "-x", "-a", "-q", "-T"))
"""Options that mean the same to ssh."""


def ssh_words(arguments: Sequence[str], environment: Mapping[str, str]) -> list[str] | None:
    """Return the call of ssh that ``oarsh`` with these arguments is, None when it goes by the number of a job.

    >>> ssh_words(["-i", "key", "-l", "ann", "n1", "date"], {})
    ['ssh', '-i', 'key', '-o', 'IdentitiesOnly=yes', '-l', 'ann', '--', 'n1', 'date']
    >>> ssh_words(["n1"], {"OAR_JOB_KEY_FILE": "key", "OAR_JOB_ID": "7"})
    """
    try:
        given, rest = getopt.getopt(list(arguments), "i:l:p:o:j:tnJxaqT", _OWN_LONG)
    except getopt.GetoptError:
        return None  # the command says what is wrong
    values = dict(given)
    named = "-j" in values or "--job" in values or "OAR_JOB_ID" in environment
    key = values.get("-i") or ("" if named else environment.get(KEY_FILE, ""))
    if not key or not rest or "--help" in values:
        return None
    passed = [word for name, value in given if name in _PASSED for word in (name, value) if word]
    return ["ssh", "-i", key, "-o", "IdentitiesOnly=yes", *passed, "--", *rest]


def enter_by_key(arguments: Sequence[str]) -> None:
    """Become ssh when a key says which job is meant; return when none does."""
    words = ssh_words(arguments, os.environ)
    if words is not None:
        _become("oarsh", words)


def copy(arguments: Sequence[str]) -> NoReturn:
    """Become scp over ``oarsh``, the one beside this program if there is one."""
    beside = os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), "oarsh")
    _become("oarcp", ["scp", "-O", "-S", beside if os.path.exists(beside) else "oarsh", *arguments])


def _become(name: str, words: Sequence[str]) -> NoReturn:
    program = shutil.which(words[0])
    if program is None:
        sys.stderr.write(f"{name}: there is no {words[0]} on this machine (install the SSH client)\n")
        sys.exit(_FAILED)
    sys.stdout.flush()
    os.execv(program, list(words))
