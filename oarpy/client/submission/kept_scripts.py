"""The script of a user with which a command begins, kept at submission: the job runs it as it was then."""

from __future__ import annotations

import os
import re

from oarpy.client.caller import current
from oarpy.client.submission.options import Options, first_word
from oarpy.model.submission import Submission

_LARGEST = 262_144
"""Bytes: a larger one is not kept."""
_PLAIN = re.compile(r"[\w./+@%:,=-]*/[\w./+@%:,=-]+", re.ASCII)
"""A path that means the same to every shell."""


def kept_script(options: Options, data: bytes | None = None) -> str:
    """Return the text of the script that the command begins with; empty when there is none to be kept.

    It is a file of the user: below the present directory or the home. Programs of the site may differ from node to
    node. With ``-d`` a relative path names a file of another directory. ``data`` is the script's content, where it was
    read before.
    """
    path = first_word(options.command)
    if not _PLAIN.fullmatch(path):
        return ""
    try:
        if not _is_of_user(path, elsewhere="directory" in options.texts):
            return ""
        if data is None:
            data = _read(path)
        text = data.decode()
    except (OSError, UnicodeDecodeError):
        return ""
    return text if data.startswith(b"#!") and len(data) <= _LARGEST and "\0" not in text else ""


def _read(path: str) -> bytes:
    """Return the content of a script; for a program that is no script, and may be large, only its beginning."""
    start = current().read_file(path, 1, executable=True)
    return current().read_file(path, _LARGEST, executable=True) if start == b"#!" else start


def without_foreign_script(submission: Submission, requested: Submission) -> Submission:
    """Return the submission without the script, if rules have made the command begin with something else."""
    if submission.script and first_word(submission.command) != first_word(requested.command):
        return submission.changed(script="")
    return submission


def _is_of_user(path: str, *, elsewhere: bool) -> bool:
    if not path.startswith("/"):
        return not elsewhere
    places = [os.path.normpath(place) for place in (current().directory(), current().environment.get("HOME")) if place]
    return any(os.path.normpath(path).startswith(f"{place}/") for place in places if place != "/")
