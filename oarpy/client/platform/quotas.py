"""``oaradmin quotas``: the rules, when they are valid, and loading them from a file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, tzinfo
from zoneinfo import ZoneInfo

from oarpy.client.caller import current
from oarpy.client.platform.quota_file import QuotaFile, document, parse
from oarpy.client.rendering import Column, Table
from oarpy.client.session import Session
from oarpy.model.errors import UsageError
from oarpy.model.quota_calendar import OTHERWISE, WEEK, period_texts, valid_spans
from oarpy.store.histories import sign
from oarpy.store.passes import quotas as store
from oarpy.store.platform import queues

_LONGEST = 1_000_000
_DATE = "%Y-%m-%d %H:%M:%S"


def load(session: Session, path: str, *, dry_run: bool = False) -> QuotaFile:
    """Replace all quotas by the quotas of a file (``-`` is standard input). Only an admin may.

    Raises :class:`UsageError` for a senseless file; then, and with ``dry_run``, nothing is changed.
    """
    session.require_admin("change quotas")
    text = _read(path)
    try:
        return replace(session, text, dry_run=dry_run)
    except UsageError as error:
        raise UsageError(f"quota file '{path[:200]}': {error.message}", hint=error.hint) from None


def replace(session: Session, text: str, *, dry_run: bool = False) -> QuotaFile:
    """Replace all quotas by the quotas in the text of a file, as :func:`load` does."""
    session.require_admin("change quotas")
    with session.connection.transaction():
        file = read(session, text)
        if not dry_run:
            sign(session.connection, session.user)
            store.clear(session.connection)
            store.add(session.connection, file.sets, file.rules, file.calendar)
    return file


def read(session: Session, text: str) -> QuotaFile:
    """Read the text of a quota file for this cluster. Raises :class:`UsageError`."""
    file = parse(text, store.countable(session.connection), zone(session))
    _check_queues(file.rules, [queue.name for queue in queues.queues(session.connection)])
    return file


def clear(session: Session) -> int:
    """Remove all quotas; return how many rules there were. Only an admin may."""
    session.require_admin("remove quotas")
    with session.connection.transaction():
        number = len(store.rules(session.connection))
        sign(session.connection, session.user)
        store.clear(session.connection)
    return number


def stored(session: Session) -> QuotaFile:
    """Return all quotas."""
    with session.connection.transaction():
        rules = tuple(store.rules(session.connection))
        calendar = store.calendar(session.connection, zone(session))
        return QuotaFile(tuple(store.sets(session.connection)), rules, calendar)


def text(file: QuotaFile) -> str:
    """Return the text of a quota file, which :func:`replace` reads again."""
    return json.dumps(document(file), indent=2) + "\n"


def table(file: QuotaFile, now: datetime) -> str:
    """Return the rules, when each set is valid, and which one is ``now``."""
    columns = ("Set", "Level", "Queue", "Project", "Type", "User", "Resources", "Jobs", "Resource-hours")
    rows = tuple(
        (rule.rule_set or "", rule.level, rule.queue, rule.project, rule.type, rule.user, *_limits(rule))
        for rule in file.rules
    )
    text = Table(tuple(map(Column, columns)), rows).text()
    times = _times(file)
    if times:
        text += "\n" + Table((Column("Set"), Column("Valid"), Column("Label")), times).text()
        text += f"\n{_valid_now(file, now)}\n"
    return text


def zone(session: Session) -> tzinfo | None:
    """Return the time zone of the rules' times of day, None for that of this machine."""
    name = session.configuration.scheduler.time_zone
    return ZoneInfo(name) if name else None


def _read(path: str) -> str:
    caller = current()
    try:
        data = caller.read_input(_LONGEST) if path == "-" else caller.read_file(path, _LONGEST, plain=False)
    except OSError as error:
        raise UsageError(f"quota file '{path[:200]}' cannot be read: {error.strerror}", hint="check its name") from None
    if len(data) > _LONGEST:
        raise UsageError(f"quota file '{path[:200]}' is larger than {_LONGEST} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise UsageError(f"quota file '{path[:200]}' is not UTF-8", hint="save it as UTF-8") from None


def _check_queues(rules: Sequence[store.QuotaRuleRow], known: Sequence[str]) -> None:
    for rule in rules:
        if rule.queue not in ("*", "/", *known):
            raise UsageError(f"a rule is for queue '{rule.queue[:60]}', which is not there", hint=", ".join(known))


def _limits(rule: store.QuotaRuleRow) -> tuple[str, str, str]:
    shown = [f"{limit:.15g}" if limit >= 0 else "-" for limit in (rule.resources, rule.jobs, rule.resource_hours)]
    return shown[0], shown[1], shown[2]


def _times(file: QuotaFile) -> tuple[tuple[str, str, str], ...]:
    calendar = file.calendar
    times = [(rule_set, text.removesuffix(" * *"), label) for text, rule_set, label in period_texts(calendar.weekly)]
    if calendar.otherwise is not None:
        times.append((calendar.otherwise, f"{OTHERWISE} (otherwise)", ""))
    for exception in calendar.dated:
        begin, end = (
            datetime.fromtimestamp(at, calendar.zone).strftime(_DATE) for at in (exception.begin, exception.end)
        )
        times.append((exception.rule_set, f"{begin} to {end}", exception.label))
    return tuple(times)


def _valid_now(file: QuotaFile, now: datetime) -> str:
    instant = now.timestamp()
    name = "that of the machine" if file.calendar.zone is None else str(file.calendar.zone)
    for rule_set, spans in valid_spans(file.calendar, instant, instant + WEEK).items():
        if spans[0][0] == instant:
            end = datetime.fromtimestamp(spans[0][1], file.calendar.zone)
            until = f" until {end.strftime(_DATE)}" if spans[0][1] < instant + WEEK else ""
            return f"Valid now: {rule_set}{until}. The time zone is {name}."
    return f"No set is valid now. The time zone is {name}."
