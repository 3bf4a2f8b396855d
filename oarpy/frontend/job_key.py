"""Entering a job by ssh: with its key, from a host that has no gateway of its cluster, or for what only ssh does.

``oarsh -i KEY HOST`` is ``ssh`` with that key: the node lets its owner into the job, and nowhere else. ``oarsh -X
HOST`` is ``ssh -X`` to the sshd of a node of the job, to which a step of the job connects it (``oarsh -W``). ``oarcp``
is ``scp`` with ``oarsh`` in the place of ``ssh``.
"""

from __future__ import annotations

import getopt
import os
import re
import shlex
import shutil
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

KEY_FILE = "OAR_JOB_KEY_FILE"
"""The variable with the key of a job: the job of this process, or the job to be entered."""

_FAILED, _USAGE = 1, 2
_OWN_LONG = ["job=", "terminal", "no-input", "json", "help"]
_CARRIED = frozenset(("-X", "-L", "-R", "-D", "-A", "-N"))
"""Options that ssh alone can carry out: windows, ports, the agent of keys, no program."""
_PASSED = _CARRIED | {"-l", "-p", "-o", "-t", "-n", "-x", "-a", "-q", "-T"}
"""Options that mean the same to ssh."""
_JOB = re.compile(r"[A-Za-z0-9_@.:-]+", re.ASCII)
_HOST = re.compile(r"(?:([A-Za-z0-9_][A-Za-z0-9_.-]*)@)?([A-Za-z0-9_][A-Za-z0-9_.:-]*)", re.ASCII)
"""Text that may be written into the line that ssh gives to a shell."""


def ssh_words(arguments: Sequence[str], environment: Mapping[str, str]) -> list[str] | None:
    """Return the call of ssh that ``oarsh`` with these arguments is, None when it goes by the number of a job.

    >>> ssh_words(["-i", "key", "-l", "ann", "n1", "date"], {})
    ['ssh', '-i', 'key', '-o', 'IdentitiesOnly=yes', '-l', 'ann', '--', 'n1', 'date']
    >>> ssh_words(["n1"], {"OAR_JOB_KEY_FILE": "key", "OAR_JOB_ID": "7"})
    >>> ssh_words(["-N", "-L", "8888:localhost:8888", "n1"], {"OAR_JOB_ID": "7"})[3:]
    ['-o', 'SetEnv=OAR_JOB_ID=7', '-N', '-L', '8888:localhost:8888', '--', 'n1']
    """
    try:
        given, rest = getopt.getopt(list(arguments), "i:l:p:o:j:W:L:R:D:tnJxaqTXAN", _OWN_LONG)
    except getopt.GetoptError:
        return None  # the command says what is wrong
    values = dict(given)
    job = values.get("-j") or values.get("--job") or environment.get("OAR_JOB_ID", "")
    key = values.get("-i") or ("" if job else environment.get(KEY_FILE, ""))
    if not rest or "--help" in values:
        return None
    passed = [word for name, value in given if name in _PASSED for word in (name, value) if word]
    if key:
        return ["ssh", "-i", key, "-o", "IdentitiesOnly=yes", *passed, "--", *rest]
    if not _CARRIED.intersection(values):
        return None
    return ["ssh", *_by_a_step(job, rest[0]), *passed, "--", *rest]


def _by_a_step(job: str, host: str) -> list[str]:
    """Return the options by which ssh reaches the sshd of a node through a step of a job there; refuse other words."""
    node = _HOST.fullmatch(host)
    if not job:
        _refuse("no job given (give -j ID, or set OAR_JOB_ID)")
    if not _JOB.fullmatch(job):
        _refuse(f"'{job}' is not the name of a job (such as 12, last or @NAME)")
    if node is None:
        _refuse(f"'{host}' is not the name of a host (oarstat -j ID names those of a job)")
    through = f"ProxyCommand={shlex.quote(oarsh_path())} -j {job} -W localhost:%p {node[2]}"
    return ["-o", through, *(["-o", f"SetEnv=OAR_JOB_ID={job}"] if job.isdigit() else [])]


def _refuse(why: str) -> NoReturn:
    sys.stderr.write(f"oarsh: {why}\n")
    sys.exit(_USAGE)


def become_ssh(arguments: Sequence[str]) -> None:
    """Become ssh when a key names the job, or when only ssh can do the command; else return."""
    words = ssh_words(arguments, os.environ)
    if words is not None:
        _become("oarsh", words)


def copy(arguments: Sequence[str]) -> NoReturn:
    """Become scp over ``oarsh``, the ``oarsh`` beside this program if there is one."""
    _become("oarcp", ["scp", "-O", "-S", oarsh_path(), *arguments])


def oarsh_path() -> str:
    """Return ``oarsh`` beside this program, its name alone where there is none."""
    beside = os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), "oarsh")
    return beside if os.path.exists(beside) else "oarsh"


def _become(name: str, words: Sequence[str]) -> NoReturn:
    program = shutil.which(words[0])
    if program is None:
        sys.stderr.write(f"{name}: there is no {words[0]} on this machine (install the SSH client)\n")
        sys.exit(_FAILED)
    sys.stdout.flush()
    os.execv(program, list(words))
