"""Submitting: the options of ``oarsub`` are the fields of the body, by the same names."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, create_model

from oarpy.client.jobs.selection import JobSelection, parse_ids
from oarpy.client.submission import report, submission
from oarpy.client.submission.alteration_report import AlteredDocument
from oarpy.client.submission.command_line import given_options
from oarpy.client.submission.dry_run_report import DryRunDocument
from oarpy.client.submission.options import Options
from oarpy.client.submission.report import SubmittedDocument
from oarpy.model.errors import UsageError
from oarpy.model.submission import ALTERABLE, OPTIONS
from oarpy.web.answers import Route
from oarpy.web.api.jobs import JobId
from oarpy.web.identity import Submitting
from oarpy.web.seats import seats_of

router = APIRouter(tags=["submission"], route_class=Route)

_PARAMETERS = "array_parameters"
_LEFT_OUT = frozenset(("interactive",))
"""The options that need a terminal."""


def _field(name: str) -> tuple[Any, Any]:
    option = OPTIONS[name]
    described = f"{option.words[0]}: {option.help}"
    if name == _PARAMETERS:
        return list[str], Field([], max_length=100_000, description="one job for each line of arguments")
    if option.repeated:
        return list[str], Field([], max_length=1000, description=described)
    return (
        (str | None, Field(None, description=described))
        if option.metavar
        else (bool, Field(False, description=described))
    )


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid")

    command: str = Field("", description="what the job runs, as one line of shell")
    environment: dict[str, str] = Field({}, max_length=10_000, description="variables of the job")
    resubmit: int | None = Field(None, ge=1, le=2**59, description="submit this ended job again; goes alone")
    dry_run: bool = Field(False, description="say what would come of it; submit nothing")
    trace: bool = Field(False, description="with what each admission rule did")

    def options(self) -> Options:
        """Return the submission as ``oarsub`` would read it from its options."""
        given = {name: getattr(self, name) for name in OPTIONS if name not in _LEFT_OUT}
        lines = given.pop(_PARAMETERS)
        texts = {name: value for name, value in given.items() if isinstance(value, str)}
        if lines:
            texts[_PARAMETERS] = _PARAMETERS
        return Options(
            words=(self.command,) if self.command else (),
            texts=texts,
            lists={name: tuple(value) for name, value in given.items() if isinstance(value, list) and value},
            flags=frozenset(name for name, value in given.items() if value is True),
        )

    def files(self) -> dict[str, bytes]:
        """Return the contents that the body has in place of files of the user, by option."""
        lines: list[str] = getattr(self, _PARAMETERS)
        return {_PARAMETERS: "\n".join(lines).encode("utf-8", "surrogateescape")} if lines else {}

    def words(self) -> list[str]:
        """Return the call of oarsub that would have asked for the same."""
        return list(self.options().arguments())


class _Changes(BaseModel):
    model_config = ConfigDict(extra="forbid")

    dry_run: bool = Field(False, description="say what would be changed; change nothing")

    def options(self) -> Options:
        """Return the same as oaralter reads it."""
        return given_options({name: getattr(self, name) for name in ALTERABLE})


_ALTERABLE: dict[str, Any] = {name: _field(name) for name in ALTERABLE}
AlterWish: Any = create_model("AlterWish", __base__=_Changes, **_ALTERABLE)
"""The body of a change of a job that waits."""

_FIELDS: dict[str, Any] = {name: _field(name) for name in OPTIONS if name not in _LEFT_OUT}
JobWish: Any = create_model("JobWish", __base__=_Asked, **_FIELDS)
"""The body of a submission."""


@router.post("/jobs", status_code=201)
def submit(request: Request, identity: Submitting, wish: JobWish) -> SubmittedDocument | DryRunDocument:
    """Submit a job, an array, a reservation, or an ended job again, as ``oarsub -J``.

    The answer to a reservation is not waited for: GET the job.
    """
    if wish.dry_run and wish.resubmit is None:
        return _foretold(request, identity, wish)
    return submitted(request, identity, wish)


@router.patch("/jobs/{job_id}")
def alter(request: Request, identity: Submitting, job_id: JobId, wish: AlterWish) -> AlteredDocument:
    """Change what a job that waits asks for, as ``oaralter -J``; what is not given stays."""
    from oarpy.client.submission import alteration_report
    from oarpy.client.submission.alteration import alter_and_predict

    with seats_of(request).session(identity, changes=True) as session:  # a dry run is undone
        changed = alter_and_predict(session, JobSelection((job_id,)), wish.options(), dry_run=wish.dry_run)
    return alteration_report.record(*changed)


def _foretold(request: Request, identity: Submitting, wish: Any) -> DryRunDocument:
    from oarpy.client.submission import dry_run_report
    from oarpy.client.submission.dry_run import dry_run

    with seats_of(request).session(identity, files=wish.files()) as session:
        return dry_run_report.record(dry_run(session, wish.options(), wish.words(), wish.environment))


def submitted(request: Request, identity: Submitting, wish: Any) -> SubmittedDocument:
    """Submit the request of a body; return the submitted jobs."""
    options, words = wish.options(), wish.words()
    with seats_of(request).session(identity, changes=not wish.dry_run, files=wish.files()) as session:
        if wish.resubmit is not None:
            if options != Options() or wish.dry_run:
                raise UsageError("resubmit goes with no other field", hint="the job keeps its own")
            (number,) = parse_ids([str(wish.resubmit)])
            return report.record(submission.resubmit(session, str(number)), (), verbose=wish.trace)
        return report.record(submission.submit(session, options, words, wish.environment), (), verbose=wish.trace)
