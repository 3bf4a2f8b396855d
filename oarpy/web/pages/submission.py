"""Submitting from a form: a script with the usual options beside it, and the predicted result while one types."""

from __future__ import annotations

import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from oarpy.client.session import Session
from oarpy.client.submission import dry_run_report, submission
from oarpy.client.submission.dry_run import dry_run
from oarpy.client.submission.options import Options
from oarpy.model.errors import OarpyError, UsageError
from oarpy.store.platform.queues import queues
from oarpy.web.app import status_of
from oarpy.web.identity import Identity, Submitting, require_own_origin
from oarpy.web.pages.rendering import page, redirect
from oarpy.web.seats import INPUT, seats_of

router = APIRouter()

_TEXTS = {"name": "name", "queue": "queue", "project": "project", "properties": "properties", "directory": "directory"}
_FIELDS = (*_TEXTS, "resources", "walltime", "types", "array_size", "script")
_EMPTY_SCRIPT = "#!/bin/bash\n\n"


@dataclass(frozen=True, slots=True)
class Answer:
    """The predicted result of the form: lines with their titles, or the ``problem`` with it."""

    lines: tuple[tuple[str, str], ...] = ()
    problem: OarpyError | None = None
    refused: bool = False


async def _form(request: Request) -> dict[str, str]:
    sent = await request.form()
    return {name: value for name in _FIELDS if isinstance(value := sent.get(name, ""), str)}


Form = Annotated[dict[str, str], Depends(_form)]


@router.get("/submit")
def form(request: Request, identity: Submitting) -> Response:
    """Return the form, with the fields of the address already filled in."""
    given = {name: request.query_params.get(name, "") for name in _FIELDS}
    usual = {"script": _EMPTY_SCRIPT, "directory": _home(identity)}
    return _page(request, identity, {name: value or usual.get(name, "") for name, value in given.items()}, Answer())


@router.post("/submit/answer", dependencies=[Depends(require_own_origin)])
def answer(request: Request, identity: Submitting, fields: Form) -> Response:
    """Predict the result of the form; nothing is stored, and nothing written down."""
    return _page(request, identity, fields, _answered(request, identity, fields))


@router.post("/submit", dependencies=[Depends(require_own_origin)])
def submit(request: Request, identity: Submitting, fields: Form) -> Response:
    """Submit, and show the job; a form that is refused comes back as it was."""
    try:
        options, files = _options(fields)
        with seats_of(request).session(identity, changes=True, files=files) as session:
            submitted = submission.submit(session, options, options.arguments(), {})
    except OarpyError as error:
        return _page(request, identity, fields, Answer(problem=error), status_of(error))
    message = " ".join((f"Job {submitted.job_ids[0]} is submitted.", *submitted.notes, *submitted.warnings))
    if submitted.is_array:
        return redirect(request, f"/jobs?array={submitted.array_id}", message)
    return redirect(request, f"/jobs/{submitted.job_ids[0]}", message)


def _answered(request: Request, identity: Identity, fields: Mapping[str, str]) -> Answer:
    try:
        options, files = _options(fields)
        with seats_of(request).session(identity, files=files) as session:
            prediction = dry_run(session, options, options.arguments(), {})
    except OarpyError as error:
        return Answer(problem=error)
    lines = dry_run_report.text(prediction).splitlines()
    return Answer(tuple(map(_titled, lines)), refused=prediction.refused)


def _titled(line: str) -> tuple[str, str]:
    """Return the title of a line and the rest.

    >>> _titled("When: tomorrow"), _titled("# Warning: so")
    (('When', 'tomorrow'), ('', '# Warning: so'))
    """
    title, colon, rest = line.partition(": ")
    return (title, rest) if colon and title.isalpha() else ("", line)


def _options(fields: Mapping[str, str]) -> tuple[Options, dict[str, bytes]]:
    """Return the typed options as oarsub reads them, and the script that stands for its input."""
    script = fields.get("script", "").replace("\r\n", "\n")
    if not script.strip():
        raise UsageError("the script is empty", hint="it is what the job runs")
    wanted = ",".join(
        part
        for part in (
            fields.get("resources", "").strip(),
            f"walltime={fields['walltime'].strip()}" if fields.get("walltime", "").strip() else "",
        )
        if part
    )
    types = tuple(fields.get("types", "").split())
    texts = {option: fields[name].strip() for name, option in _TEXTS.items() if fields.get(name, "").strip()}
    if fields.get("array_size", "").strip():
        texts["array_size"] = fields["array_size"].strip()
    lists = {"alternatives": (wanted,) if wanted else (), "types": types}
    options = Options(("-",), texts, {name: values for name, values in lists.items() if values}, scan_script=True)
    return options, {INPUT: script.encode("utf-8", "surrogateescape")}


def _page(
    request: Request, identity: Identity, fields: Mapping[str, str], reply: Answer, status: int = 200
) -> Response:
    with seats_of(request).session(identity) as session:
        names = _open_queues(session)
    given = {name: fields.get(name, "") for name in _FIELDS}
    return page(request, identity, "submit.html", status, fields=given, queues=names, answer=reply)


def _open_queues(session: Session) -> list[str]:
    return [queue.name for queue in queues(session.connection) if queue.active]


def _home(identity: Identity) -> str:
    return pwd.getpwuid(identity.uid).pw_dir
