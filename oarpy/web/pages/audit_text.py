"""Actions over the web, in words: a row of the audit has the user, the action and its object."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from oarpy.store.platform.tokens import ActionRow
from oarpy.web import oarapi
from oarpy.web.api import PREFIX
from oarpy.web.pages.actions import ACTIONS, Action

_LEFT_OUT = frozenset(("csrf_token", "confirmed", "text", "next"))
"""Form fields without meaning here, or too long for the page: rules and quotas keep their own versions."""

_SOURCES = {"token": "by a token", "session": "in a browser", "peer": "on this machine", "none": ""}
_VERBS = {
    "deletions": "delete",
    "checkpoints": "checkpoint",
    "holds": "hold",
    "rholds": "suspend",
    "resumptions": "resume",
    "signals": "signal",
    "walltime": "change the walltime of",
    "trial": "try",
}
"""Last words of paths of REST that are no verbs."""

_METHODS = {"DELETE": "delete", "PUT": "add", "PATCH": "change", "POST": "change"}
_PAGES = {"job": "/jobs/", "node": "/nodes/", "rule": "/admin/rules/"}
"""The pages of the objects of actions."""


@dataclass(frozen=True, slots=True)
class ActionText:
    """An action in words: ``deed`` says what was done to what, ``page`` is the path of a page about it, if any.

    ``rest`` has the other sent fields, ``answer`` one word, and the status after it.
    """

    deed: str
    page: str
    rest: str
    source: str
    answer: str


def action_text(row: ActionRow) -> ActionText:
    """Return an action in words."""
    sent = _sent(row.detail)
    deed, used, page = _deed(row.method, row.path, sent)
    rest = ", ".join(f"{name}: {value}" for name, value in sent.items() if name not in used | _LEFT_OUT and value != "")
    return ActionText(deed, page, rest, _SOURCES.get(row.source, row.source), _answer(row.status))


def _deed(method: str, path: str, sent: Mapping[str, str]) -> tuple[str, frozenset[str], str]:
    """Return the deed, the fields that it names, and the page of its object."""
    parts = path.rstrip("/").split("/")
    if parts[-1] in ("login", "logout"):
        return "Log in" if parts[-1] == "login" else "Log out", frozenset(), ""
    if len(parts) > 2 and parts[-2] in ("actions", "confirm") and parts[-1] in ACTIONS:
        action = ACTIONS[parts[-1]]
        deed = action.question.format_map({name: sent.get(name, "?") for name in action.fields}).rstrip("?")
        before = "Ask before: " if parts[-2] == "confirm" else ""
        named = frozenset(name for name in action.fields if f"{{{name}}}" in action.question)
        return before + deed, named, _page_of(action, sent)
    for prefix in (PREFIX, oarapi.PREFIX):
        _, prefixed, rest = path.partition(prefix + "/")
        if prefixed:
            return _rest_deed(method, rest.strip("/").split("/"))
    return f"{method} {path}", frozenset(), ""


def _page_of(action: Action, sent: Mapping[str, str]) -> str:
    kind = action.fields[0]
    value = sent.get(kind, "")
    return _PAGES[kind] + value if kind in _PAGES and re.fullmatch(r"[\w.-]+", value) else ""


def _rest_deed(method: str, parts: list[str]) -> tuple[str, frozenset[str], str]:
    """Return the same as :func:`_deed` for an operation of REST, such as POST of ``jobs/12/hold``."""
    kind = parts[0].removesuffix("s")
    if parts == ["jobs"]:
        return "Submit a job", frozenset(), ""
    if parts == ["nodes", "settings"]:
        return "Change nodes", frozenset(), ""
    verb = _VERBS.get(parts[2], parts[2]) if len(parts) > 2 else _METHODS.get(method, method)
    target = parts[1] if len(parts) > 1 else ""
    return f"{verb} {kind} {target}".strip().capitalize(), frozenset(), _PAGES[kind] + target if kind in _PAGES else ""


def _sent(detail: str) -> dict[str, str]:
    """Return the sent fields, by name; a text that was too long to be kept whole stays as it is."""
    with suppress(ValueError):
        fields = json.loads(detail or "{}")
        if isinstance(fields, dict):
            return {str(name): _shown(value) for name, value in fields.items()}
    return {"sent": detail}


def _shown(value: object) -> str:
    if isinstance(value, list):
        return " ".join(map(_shown, value))
    return value if isinstance(value, str) else json.dumps(value)


def _answer(status: int | None) -> str:
    if status is None:
        return "no answer"
    return f"{'done' if status < 400 else 'refused' if status < 500 else 'failed'} {status}"
