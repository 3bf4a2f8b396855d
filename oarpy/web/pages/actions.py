"""The actions on pages: each is confirmed, done by a POST that is written down, and reported."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from oarpy.client.jobs import actions as job_actions
from oarpy.client.jobs.selection import JobSelection, parse_ids
from oarpy.client.platform import maintenance, node_settings, projects, queues, quotas
from oarpy.client.platform.node_settings import Changes, Selection
from oarpy.client.platform.resource_selection import find as find_resources
from oarpy.client.rendering import local_date
from oarpy.client.rules import rules, trials
from oarpy.client.session import Session
from oarpy.model.errors import NotAllowed, NotFound, OarpyError, UsageError
from oarpy.store.jobs import kill_requests
from oarpy.store.jobs.job_listing import ListedJob
from oarpy.store.past import job_pages
from oarpy.store.past.job_pages import JobFilter
from oarpy.store.platform.maintenance import crossed, numbered
from oarpy.web.app import status_of
from oarpy.web.identity import Reader, Submitting, require_own_origin
from oarpy.web.pages.job import find as find_job
from oarpy.web.pages.rendering import page, redirect
from oarpy.web.seats import seats_of

router = APIRouter()

Fields = Mapping[str, str]
Line = tuple[str, str]
"""A kind and a line to show: ``plus``, ``minus``, ``dated`` for one with dates of the server, or nothing."""

_LONGEST_FIELD = 500_000
_LISTED = 50
"""The ending jobs that are shown."""

_TRIED = 100
"""Past submissions that a changed rule is tried on."""


@dataclass(frozen=True, slots=True)
class Action:
    """An action: ``question`` and ``consequence`` are shown with the fields filled in.

    ``back`` is the page to return to. ``check`` raises an error for wrong fields and returns lines to show before;
    ``run`` does the action and returns the message. ``ends`` returns the jobs that would end by it.
    """

    fields: tuple[str, ...]
    question: str
    consequence: str
    verb: str
    back: str
    check: Callable[[Session, Fields], list[Line]]
    run: Callable[[Session, Fields], str]
    reason: bool = False
    ends: Callable[[Session, Fields], tuple[int, ...]] | None = None


async def _form(request: Request) -> dict[str, str]:
    return {key: value for key, value in (await request.form()).items() if isinstance(value, str)}


Form = Annotated[dict[str, str], Depends(_form)]


@router.get("/confirm/{name}")
def ask(request: Request, identity: Reader, name: str) -> Response:
    """Return the question before an action."""
    return _question(request, identity, name, dict(request.query_params))


@router.post("/confirm/{name}", dependencies=[Depends(require_own_origin)])
def ask_long(request: Request, identity: Reader, name: str, form: Form) -> Response:
    """Return the question before an action whose fields are too long for an address."""
    return _question(request, identity, name, form)


@router.post("/actions/{name}", dependencies=[Depends(require_own_origin)])
def act(request: Request, identity: Submitting, name: str, form: Form) -> Response:
    """Do a confirmed action, and go back; an impossible action is asked about again, with the typed fields."""
    action = _action(name)
    if form.get("confirmed") != "yes":
        raise UsageError("the action is not confirmed")
    try:
        given = _fields(action, form)
        with seats_of(request).session(identity, changes=True) as session:
            message = action.run(session, given)
    except NotAllowed:
        raise
    except OarpyError as error:
        return _question(request, identity, name, form, error)
    return redirect(request, action.back.format_map(given), message)


def _question(
    request: Request, identity: Reader, name: str, form: Fields, problem: OarpyError | None = None
) -> Response:
    """Ask, after a ``problem`` with the answer, if there was one. A form that is not right is shown to be mended."""
    action = _action(name)
    try:
        given = _fields(action, form)
        with seats_of(request).session(identity) as session:
            lines = action.check(session, given)
            ended = action.ends(session, given) if action.ends else ()
            jobs = _jobs(session, ended[:_LISTED])
    except NotAllowed:
        raise
    except OarpyError as error:
        return _to_mend(request, identity, name, form, problem or error)
    return page(
        request,
        identity,
        "confirm.html",
        200 if problem is None else status_of(problem),
        action=name,
        question=action.question.format_map(given),
        consequence=action.consequence.format_map(given),
        verb=action.verb,
        back=action.back.format_map(given),
        fields={key: value for key, value in given.items() if not (action.reason and key == "reason")},
        lines=lines,
        jobs=jobs,
        ended=len(ended),
        asks_reason=action.reason,
        reason=given.get("reason", ""),
        problem=problem,
    )


def _to_mend(request: Request, identity: Reader, name: str, form: Fields, problem: OarpyError) -> Response:
    """Return the form as it was filled in, with its problem."""
    fields = {field: form.get(field, "")[:_LONGEST_FIELD] for field in _action(name).fields}
    return page(request, identity, "mend.html", status_of(problem), action=name, fields=fields, problem=problem)


def _jobs(session: Session, ids: tuple[int, ...]) -> tuple[ListedJob, ...]:
    if not ids:
        return ()
    return job_pages.page(session.connection, JobFilter(ids=ids), limit=_LISTED).jobs


def _action(name: str) -> Action:
    if name not in ACTIONS:
        raise NotFound(f"there is no action '{name[:40]}'")
    return ACTIONS[name]


def _fields(action: Action, form: Fields) -> Fields:
    """Return the fields of the action; only ``reason`` may be left out."""
    given = {name: form.get(name, "") for name in action.fields}
    for name, value in given.items():
        if len(value) > _LONGEST_FIELD or "\0" in value:
            raise UsageError(f"{name} is too long, or holds a NUL character")
        if not value.strip() and name != "reason":
            raise UsageError(f"{name} is missing", hint="fill in the form")
    return {name: value if name == "text" else " ".join(value.split()) for name, value in given.items()}


# Jobs


def _selection(given: Fields) -> JobSelection:
    return JobSelection(parse_ids([given["job"]]))


def _check_job(session: Session, given: Fields) -> list[Line]:
    row = find_job(session, parse_ids([given["job"]])[0]).row
    session.require_owner(row.user, f"job {row.job_id}")
    return [("", f"job {row.job_id} of {row.user}: {row.name or 'no name'}, {row.state}")]


def _ended_with_job(session: Session, given: Fields) -> tuple[int, ...]:
    """Return the job if it has begun, and the jobs that run inside it."""
    job = find_job(session, parse_ids([given["job"]])[0]).row
    own = (job.job_id,) if job.started is not None and job.ended is None else ()
    return (*own, *kill_requests.inside(session.connection, own))


def _hold(session: Session, given: Fields) -> str:
    job_actions.hold(session, _selection(given))
    return f"Job {given['job']} is held."


def _resume(session: Session, given: Fields) -> str:
    job_actions.resume(session, _selection(given))
    return f"Job {given['job']} is released."


def _delete(session: Session, given: Fields) -> str:
    job_actions.delete(session, _selection(given)).raise_complaints()
    return f"Job {given['job']} is being deleted."


# Nodes and queues


def _node_change(deed: str, **changes: object) -> Callable[[Session, Fields], str]:
    def run(session: Session, given: Fields) -> str:
        reason = given.get("reason") or None
        wanted = Changes(**changes, reason=reason)  # type: ignore[arg-type]
        outcome = node_settings.change(session, Selection(hosts=(given["node"],)), wanted)
        killed = f" {len(outcome.killed_jobs)} jobs are ended." if outcome.killed_jobs else ""
        return f"{given['node']} {deed}.{killed}"

    return run


def _check_node(session: Session, given: Fields) -> list[Line]:
    session.require_admin("change nodes")
    rows = find_resources(session, (), (given["node"],))
    names = sorted({row.network_address or "" for row in rows})
    shown = ", ".join(names[:20]) + (" ..." if len(names) > 20 else "")
    return [("", f"{len(names)} nodes, {len(rows)} resources: {shown}")]


def _ended_on_node(session: Session, given: Fields) -> tuple[int, ...]:
    """Return the jobs that would end with the nodes."""
    rows = find_resources(session, (), (given["node"],))
    return kill_requests.on_resources(session.connection, [row.resource_id for row in rows])


def _check_window(session: Session, given: Fields) -> list[Line]:
    """Return the nodes, the dates in the reader's zone, and the jobs that may still be there when the window begins."""
    lines = _check_node(session, given)
    begin, end = maintenance.parse_window(given["period"])
    names = sorted({resource.network_address or "" for resource in find_resources(session, (), (given["node"],))})
    jobs = crossed(session.connection, names, (begin, end))
    shown = ", ".join(map(str, jobs[:20])) + (" ..." if len(jobs) > 20 else "")
    dates = (local_date(moment.timestamp()) for moment in (begin, end))
    return [
        *lines,
        ("dated", "from {} to {}".format(*dates)),
        ("", f"may still run when it begins, or reserved in it: jobs {shown}" if jobs else "no job runs into it"),
    ]


def _plan_window(session: Session, given: Fields) -> str:
    wanted = Changes(window=maintenance.parse_window(given["period"]), reason=given.get("reason") or None)
    planned = node_settings.change(session, Selection(hosts=(given["node"],)), wanted).planned
    assert planned is not None
    return f"Maintenance {planned.window} is planned for {given['node']}."


def _check_cancel(session: Session, given: Fields) -> list[Line]:
    session.require_admin("cancel maintenance")
    rows = numbered(session.connection, parse_ids([given["window"]], "window"))
    if not rows:
        raise NotFound(f"there is no maintenance window {given['window']}")
    return [("dated", f"{maintenance.window_text(rows[0])}; {', '.join(rows[0].nodes)}")]


def _cancel_window(session: Session, given: Fields) -> str:
    maintenance.cancel(session, [given["window"]])
    return f"Maintenance {given['window']} is cancelled."


def _queue_change(active: bool) -> Callable[[Session, Fields], str]:
    def run(session: Session, given: Fields) -> str:
        queues.activate(session, [given["queue"]], active=active)
        return f"Queue {given['queue']} is {'open' if active else 'closed'}."

    return run


def _check_queue(session: Session, given: Fields) -> list[Line]:
    session.require_admin("open or close queues")
    return []


# Projects


def _check_member(session: Session, given: Fields) -> list[Line]:
    project, _ = projects.shown(session, given["project"])
    if not projects.coordinates(session, given["project"]):
        raise NotAllowed(f"'{session.user}' does not coordinate project '{given['project']}'")
    return [("", f"it is below {project.row.parent}")] if project.row.parent else []


def _add_member(session: Session, given: Fields) -> str:
    projects.add_members(session, given["project"], [given["user"]], given["role"])
    return f"{given['user']} is a {given['role']} of {given['project']}."


def _remove_member(session: Session, given: Fields) -> str:
    projects.remove_members(session, given["project"], [given["user"]])
    return f"{given['user']} is no member of {given['project']} any more."


# Rules and quotas


def _check_rule(session: Session, given: Fields) -> list[Line]:
    session.require_admin("change an admission rule")
    rules.find(session, given["rule"])
    return []


def _rule_switch(enabled: bool) -> Callable[[Session, Fields], str]:
    def run(session: Session, given: Fields) -> str:
        rules.change(session, given["rule"], enabled=enabled)
        return f"Rule {given['rule']} is {'on' if enabled else 'off'}."

    return run


def _plain_text(given: Fields) -> str:
    """Return the typed text with the line ends of files: a browser sends those of HTTP."""
    return given["text"].replace("\r\n", "\n").rstrip() + "\n"


def _compared(session: Session, name: str, text: str) -> list[Line]:
    """Return the change of a rule, and its effect on past submissions."""
    session.require_admin("change an admission rule")
    lines = _difference(rules.find(session, name).text, text)
    trial = trials.compare_rule(session, name, text, None, trials.recent(session, _TRIED))
    return [*lines, ("", ""), *(("", line) for line in trial.text().splitlines())]


def _difference(before: str, after: str) -> list[Line]:
    kinds = {"+": "plus", "-": "minus"}
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "now", "then", lineterm="", n=2)
    return [(kinds.get(line[:1], ""), line) for line in lines] or [("", "no difference")]


def _check_new_text(session: Session, given: Fields) -> list[Line]:
    return _compared(session, given["rule"], _plain_text(given))


def _change_rule(session: Session, given: Fields) -> str:
    before, after = rules.change(session, given["rule"], text=_plain_text(given))
    return f"Rule {given['rule']} has version {after}." if after != before else "Nothing changed."


def _version_text(session: Session, given: Fields) -> str:
    return rules.version(session, given["rule"], parse_ids([given["version"]], "version")[0]).text


def _check_version(session: Session, given: Fields) -> list[Line]:
    return _compared(session, given["rule"], _version_text(session, given))


def _restore_rule(session: Session, given: Fields) -> str:
    _, after = rules.change(session, given["rule"], text=_version_text(session, given))
    return f"Rule {given['rule']} has the text of version {given['version']} again, as version {after}."


def _check_quotas(session: Session, given: Fields) -> list[Line]:
    session.require_admin("change quotas")
    file = quotas.read(session, given["text"])
    return _difference(quotas.text(quotas.stored(session)), quotas.text(file))


def _load_quotas(session: Session, given: Fields) -> str:
    file = quotas.replace(session, given["text"])
    return f"{len(file.rules)} quota rules hold now."


ACTIONS = {
    "hold": Action(
        ("job",), "Hold job {job}?", "It waits until it is released.", "Hold it", "/jobs/{job}", _check_job, _hold
    ),
    "resume": Action(
        ("job",), "Release job {job}?", "It is scheduled again.", "Release it", "/jobs/{job}", _check_job, _resume
    ),
    "delete": Action(
        ("job",),
        "Delete job {job}?",
        "If it runs, it is killed.",
        "Delete it",
        "/jobs/{job}",
        _check_job,
        _delete,
        ends=_ended_with_job,
    ),
    "drain": Action(
        ("node", "reason"),
        "Drain {node}?",
        "Jobs that run there go on, and no others start there.",
        "Drain",
        "/admin",
        _check_node,
        _node_change("is drained", drain=True),
        reason=True,
    ),
    "undrain": Action(
        ("node",),
        "End the drain of {node}?",
        "Jobs start there again.",
        "End the drain",
        "/admin",
        _check_node,
        _node_change("is in use again", drain=False),
    ),
    "absent": Action(
        ("node", "reason"),
        "Set {node} Absent?",
        "All jobs that run there are killed.",
        "Set Absent",
        "/admin",
        _check_node,
        _node_change("is Absent", state="Absent"),
        reason=True,
        ends=_ended_on_node,
    ),
    "alive": Action(
        ("node",),
        "Set {node} Alive?",
        "Jobs start there again.",
        "Set Alive",
        "/admin",
        _check_node,
        _node_change("is Alive", state="Alive"),
    ),
    "plan-window": Action(
        ("node", "period", "reason"),
        "Plan maintenance of {node}?",
        "Jobs that would run into it do not start there. Those that run go on.",
        "Plan it",
        "/maintenance",
        _check_window,
        _plan_window,
        reason=True,
    ),
    "cancel-window": Action(
        ("window",),
        "Cancel maintenance {window}?",
        "Its nodes get jobs again, also in that time.",
        "Cancel it",
        "/maintenance",
        _check_cancel,
        _cancel_window,
    ),
    "close-queue": Action(
        ("queue",), "Close queue {queue}?", "Its jobs wait.", "Close it", "/admin", _check_queue, _queue_change(False)
    ),
    "open-queue": Action(
        ("queue",),
        "Open queue {queue}?",
        "Its jobs are scheduled.",
        "Open it",
        "/admin",
        _check_queue,
        _queue_change(True),
    ),
    "add-member": Action(
        ("project", "user", "role"),
        "Make {user} a {role} of project {project}?",
        "The project pays for jobs of {user}.",
        "Add",
        "/projects/{project}",
        _check_member,
        _add_member,
    ),
    "remove-member": Action(
        ("project", "user"),
        "Take {user} out of project {project}?",
        "The project pays for no new jobs of {user}; those that are submitted stay.",
        "Remove",
        "/projects/{project}",
        _check_member,
        _remove_member,
    ),
    "enable-rule": Action(
        ("rule",),
        "Turn rule {rule} on?",
        "Every submission from now on passes it.",
        "Turn it on",
        "/admin/rules/{rule}",
        _check_rule,
        _rule_switch(True),
    ),
    "disable-rule": Action(
        ("rule",),
        "Turn rule {rule} off?",
        "Submissions no longer pass it.",
        "Turn it off",
        "/admin/rules/{rule}",
        _check_rule,
        _rule_switch(False),
    ),
    "change-rule": Action(
        ("rule", "text"),
        "Change rule {rule}?",
        "The change, and what it would have changed for the latest submissions:",
        "Keep the new text",
        "/admin/rules/{rule}",
        _check_new_text,
        _change_rule,
    ),
    "restore-rule": Action(
        ("rule", "version"),
        "Give rule {rule} the text of version {version}?",
        "The change, and what it would have changed for the latest submissions:",
        "Restore it",
        "/admin/rules/{rule}",
        _check_version,
        _restore_rule,
    ),
    "load-quotas": Action(
        ("text",),
        "Replace all quotas?",
        "The next pass follows the new ones.",
        "Replace them",
        "/admin/quotas",
        _check_quotas,
        _load_quotas,
    ),
}
