"""Checks of single values of a submission: each refuses with one line that names the value and what would be right."""

from __future__ import annotations

import os
import re
from datetime import datetime, timedelta

from oarpy.admission.submission import Submission
from oarpy.client.caller import current
from oarpy.client.submission_dates import check_dates
from oarpy.model.dependency import parse_dependency
from oarpy.model.errors import UsageError
from oarpy.model.notice import parse_notice

LONGEST_COMMAND = 131_071
"""Bytes of one command with its arguments: what Linux passes to a program as one argument."""

_LONGEST_PATH = 4096
_LONGEST_NAME = 200
_LATE = timedelta(seconds=60)
"""A start that was "now" when a program wrote it may be that late here."""
_MOST_TYPES = 50
_MOST_DEPENDENCIES = 1000

_PRINTABLE = re.compile(r"[ -~]*", re.ASCII)
_OUTPUT = re.compile(r"[a-zA-Z0-9_./\-%\ ]+", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)
_DATE = re.compile(r"(?:(\d{4})-(\d{1,2})-(\d{1,2})(?:[ T]+|$))?(?:(\d{1,2})(?::(\d{1,2}))?(?::(\d{1,2}))?)?", re.ASCII)


def check_values(submission: Submission) -> None:
    """Raise :class:`UsageError` for the first value of ``submission`` that cannot be stored or carried out."""
    _printable("--name", submission.name, _LONGEST_NAME)
    _printable("--project", submission.project, _LONGEST_NAME)
    if not submission.project:
        raise UsageError("empty project", hint="leave --project out for 'default'")
    if len(submission.types) > _MOST_TYPES:
        raise UsageError(f"{len(submission.types)} job types", hint=f"at most {_MOST_TYPES}")
    for word in submission.types:
        _printable("-t", word, _LONGEST_NAME)
        if not word.strip():
            raise UsageError("empty job type", hint="for example -t besteffort")
    check_dates(submission)
    check_text("command", submission.command, LONGEST_COMMAND)
    check_directory(submission.directory)
    for option, path in (("-O", submission.stdout), ("-E", submission.stderr)):
        check_output(option, path)
    if submission.notify:
        parse_notice(submission.notify)
    if len(submission.dependencies) > _MOST_DEPENDENCIES:
        raise UsageError(f"{len(submission.dependencies)} dependencies", hint=f"at most {_MOST_DEPENDENCIES}")
    for dependency in submission.dependencies:
        required = parse_dependency(dependency)
        if submission.reservation is not None and (required.earliest or required.latest):
            raise UsageError(f"dependency '{_short(dependency)}' with a reservation", hint="-r gives the start")
    longest = max(map(_size, submission.array_parameters), default=0)
    if _size(submission.command) + longest + 1 > LONGEST_COMMAND:
        raise UsageError(
            f"command of {_size(submission.command) + longest} bytes",
            hint=f"at most {LONGEST_COMMAND}, arguments included",
        )


def check_text(what: str, text: str, longest: int) -> None:
    """Raise :class:`UsageError` unless ``text`` is UTF-8 without NUL and of at most ``longest`` bytes."""
    if "\0" in text:
        raise UsageError(f"{what} holds a NUL character", hint="remove it")
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise UsageError(f"{what} holds bytes that are not UTF-8", hint="use UTF-8")
    if _size(text) > longest:
        raise UsageError(f"{what} of {_size(text)} bytes", hint=f"at most {longest}")


def check_directory(path: str) -> None:
    """Raise :class:`UsageError` unless ``path`` is an absolute path of a directory that exists here."""
    check_text("-d", path, _LONGEST_PATH)
    if not path.isprintable():
        raise UsageError("working directory with unprintable characters", hint="rename it")
    if not os.path.isabs(path):
        raise UsageError(f"working directory '{_short(path)}' is not absolute", hint="begin it with /")
    if not current().has_directory(path):
        raise UsageError(f"working directory '{_short(path)}' does not exist", hint="create it first")


def check_output(option: str, path: str) -> None:
    """Raise :class:`UsageError` unless ``path`` may name an output file."""
    if not _OUTPUT.fullmatch(path) or len(path) > _LONGEST_PATH:
        raise UsageError(
            f"output file '{_short(path)}' of {option} is not allowed", hint="use letters, digits and _ . / - % space"
        )


def read_number(option: str, text: str, lowest: int, highest: int) -> int:
    """Return the whole number of ``option``; raise :class:`UsageError` unless it lies between the two bounds."""
    if not _NUMBER.fullmatch(text.strip()) or not lowest <= int(text) <= highest:
        raise UsageError(
            f"{option} '{_short(text)}' is out of range", hint=f"a whole number from {lowest} to {highest}"
        )
    return int(text)


def read_reservation(text: str, now: datetime) -> tuple[datetime, int | None]:
    """Return the start of ``START[, END]`` and the seconds until its end, if that is given.

    ``now`` carries the time zone in which the dates are meant and is what ``now`` and a missing day stand for. An end
    without a day that lies before the start is one of the next day.
    """
    first, comma, last = text.partition(",")
    if first.strip() == "now":
        start = now
    else:
        start, _ = _date(first, now)
        if start < now - _LATE:
            raise UsageError(f"reservation start '{_short(first.strip())}' is in the past", hint="or use -r now")
        start = max(start, now)
    if start > now + timedelta(days=3660):
        raise UsageError(f"reservation start '{_short(first.strip())}' is too far away", hint="at most 10 years")
    if not comma:
        return start, None
    end, dated = _date(last, start)
    if not dated and end <= start:
        end += timedelta(days=1)
    if end <= start:
        raise UsageError(f"reservation end '{_short(last.strip())}' is not after its start", hint="START, END")
    return start, max(1, int((end - start).total_seconds()))


def _date(text: str, base: datetime) -> tuple[datetime, bool]:
    """Read a date; a missing day is that of ``base``. Tell too whether the day was given."""
    found = _DATE.fullmatch(text.strip())
    wrong = UsageError(f"'{_short(text.strip())}' is not a date", hint='write "YYYY-MM-DD hh:mm:ss" or now')
    if found is None or not text.strip() or (found[1] is None and found[5] is None):
        raise wrong
    year, month, day, *clock = (int(part) if part else None for part in found.groups())
    hour, minute, second = (part or 0 for part in clock)
    try:
        if year is None or month is None or day is None:
            local = base.replace(hour=hour, minute=minute, second=second, microsecond=0, tzinfo=None)
        else:
            local = datetime(year, month, day, hour, minute, second)
        return local.astimezone(), year is not None
    except (ValueError, OverflowError, OSError):
        raise wrong from None


def _printable(option: str, text: str, longest: int) -> None:
    if not _PRINTABLE.fullmatch(text):
        raise UsageError(f"{option} '{_short(text)}' is not plain text", hint="use printable ASCII characters")
    if len(text) > longest:
        raise UsageError(f"{option} of {len(text)} characters", hint=f"at most {longest}")


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:80] + "..."


def _size(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))
