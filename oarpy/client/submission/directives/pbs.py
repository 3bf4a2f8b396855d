"""``#PBS`` lines, of OpenPBS and of Torque."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

from oarpy.client.submission.directives.translation import (
    Indispensable,
    NotTranslated,
    Translation,
    array_size,
    file_pattern,
    whole_number,
)
from oarpy.model.durations import parse_duration
from oarpy.model.errors import UsageError

_FLAGS = frozenset("VhIXz")
_DISPENSABLE = frozenset({"l mem", "l pmem", "l vmem", "l pvmem", "l cput", "l pcput", "l file", "l nice"})
"""Limits; all other resources of ``-l`` say how much, or where."""

_FILES = {
    word: ours
    for name, ours in (("PBS_JOBID", "%jobid%"), ("PBS_JOBNAME", "%jobname%"), ("PBS_ARRAYID", "%arrayindex%"))
    for word in (f"${name}", f"${{{name}}}")
} | {"^array_index^": "%arrayindex%"}
_DEPENDENCIES = {"after": "{},[+0", "afterany": "{}", "afterok": "ok:{}", "afternotok": "notok:{}"}
_OF_PROCESSES = frozenset({"mpiprocs", "ompthreads"})
_MAIL = {"b": "RUNNING", "e": "END", "a": "ERROR"}


def words(line: str) -> Iterator[tuple[str, str, str]]:
    """Yield each option of a line: as written, its letter (and resource), its value. Raises :class:`NotTranslated`."""
    try:
        waiting = shlex.split(line.removeprefix("#PBS"), comments=True)[::-1]
    except ValueError as error:
        raise NotTranslated(str(error)) from None
    while waiting:
        word = waiting.pop()
        if not re.fullmatch(r"-[A-Za-z].*", word):
            raise NotTranslated(f"'{word[:40]}' is no option")
        letter, value = word[1], word[2:]
        if not value and letter not in _FLAGS and waiting:
            value = waiting.pop()
        if letter != "l":
            yield f"-{letter} {value}".rstrip(), letter, value
            continue
        for part in value.split(","):
            name, _, amount = part.partition("=")
            yield f"-l {part}", f"l {name.strip()}", amount.strip()


def translate(translation: Translation, name: str, value: str) -> str:
    """Add one option to the request; return the part of it that is lost. Raises :class:`NotTranslated`."""
    try:
        if name not in _OPTIONS:
            raise NotTranslated
        return _OPTIONS[name](translation, value) or ""
    except NotTranslated as lost:
        if name in ("J", "t") or (name.startswith("l ") and name not in _DISPENSABLE):
            raise Indispensable(str(lost)) from None
        raise


def _text(field: str) -> Callable[[Translation, str], None]:
    def take(translation: Translation, value: str) -> None:
        translation.texts[field] = value

    return take


def _file(field: str) -> Callable[[Translation, str], None]:
    def take(translation: Translation, value: str) -> None:
        translation.texts[field] = file_pattern(value.rpartition(":")[2], _FILES)

    return take


def _join(translation: Translation, value: str) -> None:
    translation.joined = value != "n"


def _select(translation: Translation, value: str) -> None:
    """Read ``2:ncpus=4:mem=8gb+1:ncpus=16``: chunks, each on a node of its own."""
    for chunk in value.split("+"):
        count, *parts = chunk.split(":")
        if "=" in count:
            count, parts = "1", [count, *parts]
        amounts = dict(part.partition("=")[::2] for part in parts)
        if "mem" in amounts and "+" not in value:
            translation.take_memory(_amount(amounts.pop("mem")))
        _add_chunk(translation, count, amounts.pop("ncpus", "1"), amounts.pop("ngpus", ""), amounts)


def _nodes(translation: Translation, value: str) -> None:
    """Read Torque's ``2:ppn=8+1:ppn=4``."""
    for chunk in value.split("+"):
        count, *parts = chunk.split(":")
        amounts = dict(part.partition("=")[::2] for part in parts)
        _add_chunk(translation, count, amounts.pop("ppn", "1"), amounts.pop("gpus", ""), amounts)


def _add_chunk(translation: Translation, count: str, cores: str, gpus: str, others: Mapping[str, str]) -> None:
    """Add ``count`` nodes with ``cores`` cores and ``gpus`` graphics processors each ("": not said).

    Raises :class:`NotTranslated` for ``others``, the other attributes of the nodes.
    """
    for name, amount in others.items():
        if name not in _OF_PROCESSES:
            raise NotTranslated(f"without counterpart: {name}={amount}".rstrip("="))
    levels = f"/core={whole_number(cores)}"
    if gpus:
        translation.require_gpus()
        levels = f"/gpu={whole_number(gpus)}/core={-(-whole_number(cores) // whole_number(gpus))}"
    translation.chunks.append(f"/nodes={whole_number(count)}{levels}")


def _place(translation: Translation, value: str) -> None:
    """Read how chunks lie: as they do here, each on nodes of its own, and maybe with all of these."""
    for word in value.split(":"):
        if word in ("excl", "exclhost"):
            translation.add("types", "exclusive")
        elif word not in ("free", "scatter"):
            raise NotTranslated("write -l with the levels of the site")


def _cores(translation: Translation, value: str) -> None:
    translation.tasks, translation.cores = 1, whole_number(value)


def _tasks(translation: Translation, value: str) -> None:
    translation.tasks = whole_number(value)


def _memory(translation: Translation, value: str) -> None:
    translation.take_memory(_amount(value))


def _amount(text: str) -> str:
    match = re.fullmatch(r"(\d{1,12})([kmgt]?)b?", text.lower(), re.ASCII)
    if match is None or not int(match[1]):
        raise NotTranslated("write -l nodes=1,memory=16G")
    return match[1] + match[2].upper()


def _walltime(translation: Translation, value: str) -> None:
    """Read ``h:m:s``, ``m:s`` or seconds."""
    parts = value.split(":")
    try:
        translation.walltime = parse_duration(f"{':'.join(['0'] * (3 - len(parts)) + parts)}".partition(".")[0])
    except UsageError:
        raise NotTranslated("write -l walltime=H:M:S") from None


def _depend(translation: Translation, value: str) -> None:
    for dependency in value.split(","):
        kind, *jobs = dependency.removeprefix("depend=").split(":")
        numbers = [job.partition(".")[0] for job in jobs]
        if kind not in _DEPENDENCIES or not numbers or not all(re.fullmatch("[0-9]+", job) for job in numbers):
            raise NotTranslated("write -a ID, -a ok:ID or -a notok:ID")
        translation.add("dependencies", *(_DEPENDENCIES[kind].format(job) for job in numbers))


def _array(translation: Translation, value: str) -> str:
    translation.texts["array_size"], lost = array_size(value)
    return lost


def _mail(translation: Translation, value: str) -> None:
    """Read letters of mails; letters of mails that are not sent here are left out."""
    translation.mail_tags = tuple(_MAIL[letter] for letter in value if letter in _MAIL)


def _mail_user(translation: Translation, value: str) -> None:
    translation.mail_to = value.partition(",")[0]
    translation.mail_tags = ("ERROR",) if translation.mail_tags is None else translation.mail_tags
    if "," in value:
        raise NotTranslated("mail goes to the first address")


def _after_date(translation: Translation, value: str) -> None:
    """Read ``[[CC]YY]MMDDhhmm[.SS]``."""
    digits, _, seconds = value.partition(".")
    for length, form in ((12, "%Y%m%d%H%M"), (10, "%y%m%d%H%M"), (8, "%m%d%H%M"), (4, "%H%M")):
        if len(digits) == length and digits.isdigit():
            now = datetime.now()
            full = {4: f"{now:%Y%m%d}", 8: f"{now:%Y}"}.get(length, "") + digits
            try:
                date = datetime.strptime(full, {4: "%Y%m%d%H%M", 8: "%Y%m%d%H%M"}.get(length, form))
            except ValueError:
                break
            translation.add("types", f"postpone={date:%Y-%m-%d %H:%M}:{seconds or '00'}")
            return
    raise NotTranslated("write -t postpone=DATE")


def _rerun(translation: Translation, value: str) -> None:
    if value == "y":
        translation.add("types", "idempotent")


_OPTIONS: dict[str, Callable[[Translation, str], str | None]] = {
    "N": _text("name"),
    "q": _text("queue"),
    "A": _text("project"),
    "P": _text("project"),
    "o": _file("stdout"),
    "e": _file("stderr"),
    "j": _join,
    "l select": _select,
    "l nodes": _nodes,
    "l ncpus": _cores,
    "l procs": _tasks,
    "l mem": _memory,
    "l walltime": _walltime,
    "l place": _place,
    "W": _depend,
    "J": _array,
    "t": _array,
    "m": _mail,
    "M": _mail_user,
    "a": _after_date,
    "d": _text("directory"),
    "w": _text("directory"),
    "h": lambda translation, value: translation.flags.add("hold"),
    "r": _rerun,
    "V": lambda translation, value: None,
}
