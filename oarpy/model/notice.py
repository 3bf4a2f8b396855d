"""The addressee of notices about a job: ``[TAG,...]mail:ADDRESS`` or ``[TAG,...]exec:COMMAND``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from oarpy.model.errors import UsageError


class Tag(StrEnum):
    """The kinds of notices about a job."""

    RUNNING = "RUNNING"
    END = "END"
    ERROR = "ERROR"
    INFO = "INFO"
    SUSPENDED = "SUSPENDED"
    RESUMING = "RESUMING"
    MOVED = "MOVED"
    PROMISED = "PROMISED"
    IMPROVED = "IMPROVED"


class NoticeWay(StrEnum):
    """The way of a notice."""

    MAIL = "mail"
    EXEC = "exec"


@dataclass(frozen=True, slots=True)
class Notice:
    """A request for notices: ``tags`` are the kinds to send, ``target`` a mail address or a command."""

    tags: frozenset[Tag]
    way: NoticeWay
    target: str


_LONGEST = 1000
_NOTICE = re.compile(r"(?:\[([A-Z, |]*)\]\s*)?(mail|exec):(.+)", re.ASCII)
_MAIL = re.compile(r"[A-Za-z0-9_.+-]+(?:@[A-Za-z0-9_.-]+)?", re.ASCII)
_PROGRAM = re.compile(r"[a-zA-Z0-9_./ -]+", re.ASCII)


def parse_notice(text: str) -> Notice:
    """Read the value of ``--notify``; without tags, all of them count. Raises :class:`UsageError`.

    >>> parse_notice("[END,ERROR]mail:ann@site.org").target
    'ann@site.org'
    """
    match = _NOTICE.fullmatch(text)
    if match is None or len(text) > _LONGEST:
        raise UsageError(
            f"--notify '{text[:80]}' is not understood", hint="mail:ADDRESS or exec:COMMAND, [TAGS] before"
        )
    tags, way, target = match.groups()
    if way == NoticeWay.MAIL and not _MAIL.fullmatch(target):
        raise UsageError(f"--notify mail address '{target[:80]}' is not allowed", hint="for example mail:ann@site.org")
    if way == NoticeWay.EXEC and (not _PROGRAM.fullmatch(target) or not target.strip()):
        raise UsageError(
            f"--notify command '{target[:80]}' is not allowed", hint="use letters, digits and _ . / - space"
        )
    return Notice(_tags(tags), NoticeWay(way), target.strip())


def _tags(text: str | None) -> frozenset[Tag]:
    """Return the tags before a notice, all tags if there are none. Raises :class:`UsageError` for an unknown tag."""
    words = [word for word in re.split(r"[,| ]+", text or "") if word]
    for word in words:
        if word not in Tag.__members__:
            raise UsageError(f"--notify tag '{word}' is unknown", hint="one of " + ", ".join(sorted(Tag)))
    return frozenset(map(Tag, words)) or frozenset(Tag)
