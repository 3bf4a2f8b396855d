"""``#SBATCH`` lines."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator

from oarpy.client.submission.directives.translation import (
    Indispensable,
    NotTranslated,
    Translation,
    array_size,
    file_pattern,
    host_names,
    whole_number,
)
from oarpy.model.submission import NICEST

_SHORT = {
    "N": "nodes",
    "n": "ntasks",
    "c": "cpus-per-task",
    "t": "time",
    "J": "job-name",
    "o": "output",
    "e": "error",
    "p": "partition",
    "A": "account",
    "a": "array",
    "d": "dependency",
    "D": "chdir",
    "H": "hold",
    "b": "begin",
    "q": "qos",
    "C": "constraint",
    "w": "nodelist",
    "x": "exclude",
    "F": "nodefile",
    "G": "gpus",
    "L": "licenses",
    "M": "clusters",
    "s": "oversubscribe",
    "v": "verbose",
    "Q": "quiet",
}
_INDISPENSABLE = frozenset(
    {
        *("nodes", "ntasks", "ntasks-per-node", "ntasks-per-gpu", "cpus-per-task", "cpus-per-gpu", "mincpus"),
        *("exclusive", "time", "array", "gres", "gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket", "tmp"),
        *("constraint", "nodelist", "nodefile", "exclude", "licenses", "reservation", "clusters"),
    }
)
"""Options that say how much, or where."""

_FLAGS = frozenset(
    {
        *("hold", "exclusive", "requeue", "no-requeue", "oversubscribe", "verbose", "quiet", "contiguous"),
        *("spread-job", "nice"),
    }
)
"""Options that stand without a value; one that may have a value has it behind ``=``."""

_NICE = "100"
"""The meaning of ``--nice`` without a number."""

_FILES = {"%j": "%jobid%", "%x": "%jobname%", "%A": "%arrayid%", "%a": "%arrayindex%", "%%": "%"}
_TAGS = {"BEGIN": ("RUNNING",), "END": ("END",), "FAIL": ("ERROR",), "REQUEUE": ("INFO",)}
_DEPENDENCIES = {
    "after": "{},[+0",
    "afterany": "{}",
    "afterok": "ok:{}",
    "afternotok": "notok:{}",
    "aftercorr": "corr:{}",
}
_UNITS = {"second": "s", "minute": "m", "hour": "h", "day": "d", "week": "w"}


def words(line: str) -> Iterator[tuple[str, str, str]]:
    """Yield each option of a line: as written, its long name, its value. Raises :class:`NotTranslated`."""
    try:
        waiting = shlex.split(line.removeprefix("#SBATCH"), comments=True)[::-1]
    except ValueError as error:
        raise NotTranslated(str(error)) from None
    while waiting:
        word = waiting.pop()
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
        elif re.fullmatch(r"-[A-Za-z].*", word):
            name, value = _SHORT.get(word[1], word[1]), word[2:].removeprefix("=")
            equals = value
        else:
            raise NotTranslated(f"'{word[:40]}' is no option")
        if not equals and name not in _FLAGS and waiting and not waiting[-1].startswith("-"):
            value = waiting.pop()
        yield (f"{word} {value}" if value and not equals else word), name, value


def translate(translation: Translation, name: str, value: str) -> str:
    """Add one option to the request; return the part of it that is lost. Raises :class:`NotTranslated`."""
    try:
        if name not in _OPTIONS:
            raise NotTranslated(_INSTEAD.get(name, ""))
        return _OPTIONS[name](translation, value) or ""
    except NotTranslated as lost:
        if name in _INDISPENSABLE:
            raise Indispensable(str(lost)) from None
        raise


def _text(field: str) -> Callable[[Translation, str], None]:
    def take(translation: Translation, value: str) -> None:
        translation.texts[field] = value

    return take


def _number(field: str) -> Callable[[Translation, str], None]:
    def take(translation: Translation, value: str) -> None:
        setattr(translation, field, whole_number(value.partition("-")[0] if field == "nodes" else value))

    return take


def _file(field: str) -> Callable[[Translation, str], None]:
    def take(translation: Translation, value: str) -> None:
        translation.texts[field] = file_pattern(value, _FILES)

    return take


def _output(translation: Translation, value: str) -> None:
    """Without a file for errors they go to that for output, as in Slurm."""
    _file("stdout")(translation, value)
    translation.texts.setdefault("stderr", translation.texts["stdout"])


def _time(translation: Translation, value: str) -> None:
    """Read minutes, ``m:s``, ``h:m:s``, ``d-h``, ``d-h:m`` or ``d-h:m:s``."""
    match = re.fullmatch(r"(?:(\d{1,5})-)?(\d{1,6})(?::(\d{1,4}))?(?::(\d{1,4}))?", value, re.ASCII)
    if match is None:
        raise NotTranslated("write -l walltime=H:M:S")
    days, *parts = (None if part is None else int(part) for part in match.groups())
    first, second, third = (part or 0 for part in parts)
    if days is not None or parts[2] is not None:
        hours, minutes, seconds = first, second, third
    else:
        hours, minutes, seconds = 0, first, second
    translation.walltime = (days or 0) * 86400 + hours * 3600 + minutes * 60 + seconds
    if not translation.walltime:
        raise NotTranslated("a job without a limit of time: write -l walltime=H:M:S")


def _dependency(translation: Translation, value: str) -> None:
    if "?" in value:
        raise NotTranslated("one of several jobs")
    dependencies = []
    parts = value.split(",")
    for part in parts:
        if part == "singleton":
            continue
        kind, *jobs = part.split(":")
        if kind not in _DEPENDENCIES or not jobs or not all(re.fullmatch("[0-9]+", job, re.ASCII) for job in jobs):
            raise NotTranslated("write -a ID, -a ok:ID, -a notok:ID or -t singleton=NAME")
        dependencies += [_DEPENDENCIES[kind].format(job) for job in jobs]
    if dependencies:
        translation.add("dependencies", *dependencies)
    translation.singleton |= "singleton" in parts


def _nice(translation: Translation, value: str) -> str:
    number = value or _NICE
    if not re.fullmatch("[0-9]{1,10}", number, re.ASCII):
        raise NotTranslated(f"write --nice N, 0 to {NICEST}: no job goes before others by it")
    translation.texts["nice"] = str(min(int(number), NICEST))
    return f"it is read as --nice {NICEST}, the most there is" if int(number) > NICEST else ""


def _cores_per_gpu(translation: Translation, value: str) -> None:
    raise NotTranslated(f"write -l /nodes=1/gpu=1/core={whole_number(value)}")


def _array(translation: Translation, value: str) -> str:
    translation.texts["array_size"], lost = array_size(value)
    return lost


def _memory(translation: Translation, value: str) -> None:
    match = re.fullmatch(r"(\d{1,12})([KMGT]?)B?", value.upper(), re.ASCII)
    if match is None or not int(match[1]):
        raise NotTranslated("write -l nodes=1,memory=16G")
    translation.take_memory(match[1] + (match[2] or "M"))


def _memory_per_core(translation: Translation, value: str) -> None:
    if "memory" in translation.names.consumables():
        raise Indispensable("memory is asked for by node: write --mem")
    raise NotTranslated("this site has no consumable 'memory'")


def _gpus(field: str) -> Callable[[Translation, str], None]:
    def take(translation: Translation, value: str) -> None:
        number = whole_number(value)
        translation.require_gpus()
        setattr(translation, field, number)

    return take


def _generic_resources(translation: Translation, value: str) -> None:
    """Read ``gpu`` and ``gpu:2``, which count the GPUs of each node."""
    match = re.fullmatch(r"gpu(?::(\d+))?", value, re.ASCII)
    if match is None:
        raise NotTranslated("write -l with the site's properties: oarproperty --list")
    _gpus("gpus_per_node")(translation, match[1] or "1")


def _hosts(field: str) -> Callable[[Translation, str], None]:
    def take(translation: Translation, value: str) -> None:
        setattr(translation, field, host_names(value))

    return take


def _licences(translation: Translation, value: str) -> None:
    for part in value.split(","):
        match = re.fullmatch(r"([A-Za-z]\w*)(?::(\d{1,9}))?", part, re.ASCII)
        if match is None:
            raise NotTranslated("write -t token:NAME=COUNT")
        if match[1] not in translation.names.resource_types():
            raise NotTranslated(f"there is no resource of type {match[1]} here")
        translation.add("types", f"token:{match[1]}={match[2] or 1}")


def _mail_type(translation: Translation, value: str) -> None:
    kinds = [kind.strip().upper() for kind in value.split(",")]
    if kinds == ["NONE"]:
        translation.mail_tags = ()
    elif "ALL" in kinds:
        translation.mail_tags = ("RUNNING", "END", "ERROR", "INFO")
    elif unknown := [kind for kind in kinds if kind not in _TAGS]:
        raise NotTranslated(f"no mail about {unknown[0]}")
    else:
        translation.mail_tags = tuple(tag for kind in kinds for tag in _TAGS[kind])


def _mail_user(translation: Translation, value: str) -> None:
    translation.mail_to = value


def _begin(translation: Translation, value: str) -> None:
    match = re.fullmatch(r"now\+(\d+)(second|minute|hour|day)?s?", value)
    translation.add("types", f"postpone=+{match[1]}{_UNITS[match[2] or 'second']}" if match else f"postpone={value}")


def _signal(translation: Translation, value: str) -> str:
    match = re.fullmatch(r"(?:([BR]+):)?(\w+)(?:@(\d{1,7}))?", value)
    if match is None:
        raise NotTranslated("write --checkpoint SECONDS --signal SIGNAL")
    translation.texts |= {"checkpoint_signal": match[2], "checkpoint": match[3] or "60"}
    return ""


def _exclusive(translation: Translation, value: str) -> None:
    if value:
        raise NotTranslated("write -l nodes=N for whole nodes")
    translation.whole_nodes = True


def _export(translation: Translation, value: str) -> None:
    if value.upper() != "ALL":
        raise NotTranslated("a job has all of the environment")


_OPTIONS: dict[str, Callable[[Translation, str], str | None]] = {
    "nodes": _number("nodes"),
    "ntasks": _number("tasks"),
    "ntasks-per-node": _number("per_node"),
    "cpus-per-task": _number("cores"),
    "cpus-per-gpu": _cores_per_gpu,
    "exclusive": _exclusive,
    "mem": _memory,
    "mem-per-cpu": _memory_per_core,
    "mem-per-gpu": _memory_per_core,
    "gpus": _gpus("gpus"),
    "gpus-per-node": _gpus("gpus_per_node"),
    "gpus-per-task": _gpus("gpus_per_task"),
    "gres": _generic_resources,
    "nodelist": _hosts("hosts"),
    "exclude": _hosts("excluded"),
    "licenses": _licences,
    "time": _time,
    "job-name": _text("name"),
    "output": _output,
    "error": _file("stderr"),
    "partition": _text("queue"),
    "account": _text("project"),
    "array": _array,
    "dependency": _dependency,
    "nice": _nice,
    "chdir": _text("directory"),
    "hold": lambda translation, value: translation.flags.add("hold"),
    "begin": _begin,
    "deadline": lambda translation, value: translation.add("types", f"deadline={value}"),
    "requeue": lambda translation, value: translation.add("types", "idempotent"),
    "no-requeue": lambda translation, value: None,
    "verbose": lambda translation, value: None,
    "quiet": lambda translation, value: None,
    "signal": _signal,
    "mail-type": _mail_type,
    "mail-user": _mail_user,
    "export": _export,
}

_INSTEAD = {
    "constraint": "write -p with the site's properties: oarproperty --list",
    "reservation": "write -t inner=ID, the job that reserves",
    "clusters": "oargridsub submits to other clusters",
}
"""The counterparts of some options that are not read."""
