"""The notifier: tells users the news of their jobs that they asked for, and the admin the news of nodes.

The database queues notices; a row leaves the queue after its notice was sent. So every notice is sent once, and once
more when this process dies in between. Mail servers and commands take their time in threads of their own: a round never
waits for them.
"""

from __future__ import annotations

import queue
import socket
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

import structlog

from oarpy.configuration import Configuration
from oarpy.model.errors import UsageError
from oarpy.model.notice import Notice, NoticeWay, Tag, parse_notice
from oarpy.modules.loop.module import Outcome
from oarpy.modules.notifier.command import run_as_user
from oarpy.modules.notifier.mail import Failure, Letter, send
from oarpy.modules.notifier.mail_text import MailWriter
from oarpy.store.database import Connection
from oarpy.store.jobs import notices
from oarpy.store.jobs.notices import NoticeRow
from oarpy.store.platform import site
from oarpy.transport.wakeup import WakeupBell

log = structlog.get_logger()

_BATCH = 200
"""Notices looked at in one round."""

_COMMANDS = 8
"""Commands of users that run at once."""

_COMMANDS_PER_USER = 2

_EVENTS = {NoticeWay.MAIL: "USER_MAIL_NOTIFICATION_ERROR", NoticeWay.EXEC: "USER_EXEC_NOTIFICATION_ERROR"}


@dataclass(frozen=True, slots=True)
class _Told:
    """The outcome of sending one notice; without a failure it was sent."""

    row: NoticeRow
    way: NoticeWay
    failure: Failure | None


class Notifier:
    """Empties the queue of notices."""

    name = "notifier"

    def __init__(self, configuration: Configuration) -> None:
        self.period = configuration.modules.notifier
        self._mail = configuration.mail
        self._jobs = configuration.jobs
        self._letters = MailWriter(self._mail.templates, self._mail.cluster_name or socket.gethostname())
        self._told: queue.SimpleQueue[_Told] = queue.SimpleQueue()
        self._bell = WakeupBell()
        self._mailing: dict[int, NoticeRow] = {}
        self._running: dict[int, NoticeRow] = {}

    def files(self) -> Sequence[int]:
        """Return a descriptor that is readable when a thread is done with a notice."""
        return [self._bell.fileno()]

    def run_once(self, connection: Connection, now: datetime) -> Outcome:
        """Settle the sent notices, and begin to send the due ones."""
        self._bell.quiet()
        sent, failed = self._settle(connection)
        rows = self._due(connection)
        begun = self._begin(connection, rows)
        word = f"told {sent}, failed {failed}" if sent or failed else "nothing"
        return Outcome(
            word,
            again=begun > 0 and len(rows) == _BATCH,
            wake_at=notices.next_due(connection),
            pending=bool(self._mailing or self._running),
        )

    def _settle(self, connection: Connection) -> tuple[int, int]:
        """Record the results of the threads; return how many notices were sent, and how many tries failed."""
        done: list[_Told] = []
        with suppress(queue.Empty):
            while True:
                done.append(self._told.get_nowait())
        failures = [(result, result.failure) for result in done if result.failure is not None]
        lost, again = [], []
        for result, failure in failures:
            if failure.permanent or result.row.attempts + 1 >= self._mail.attempts:
                lost.append((result.row.id, _EVENTS[result.way], failure.reason))
            else:
                again.append(result.row.id)
            log.warning(
                "notice failed",
                notice=result.row.id,
                job=result.row.job,
                grid_job=result.row.grid_job,
                way=str(result.way),
                reason=failure.reason,
            )
        with connection.transaction():
            notices.remove(connection, [result.row.id for result in done if result.failure is None])
            notices.give_up(connection, lost)
            notices.postpone(connection, again, self._mail.retry_delay)
        for result in done:
            self._mailing.pop(result.row.id, None)
            self._running.pop(result.row.id, None)
        return len(done) - len(failures), len(failures)

    def _due(self, connection: Connection) -> list[NoticeRow]:
        busy = [*self._mailing.values(), *self._running.values()]
        users = Counter(row.user for row in self._running.values())
        return notices.due(
            connection,
            busy,
            [user for user, number in users.items() if number >= _COMMANDS_PER_USER],
            _BATCH,
        )

    def _begin(self, connection: Connection, rows: Sequence[NoticeRow]) -> int:
        """Begin to send the notices that have a recipient and drop the others; return the number of both."""
        unwanted: list[int] = []
        hopeless: list[tuple[int, str, str]] = []
        mails: list[tuple[NoticeRow, str]] = []
        commands: list[tuple[NoticeRow, str]] = []
        for row in rows:
            notice = self._wish(row)
            if notice is None or Tag(row.tag) not in notice.tags:
                unwanted.append(row.id)
            elif notice.way is NoticeWay.EXEC:
                commands.append((row, notice.target))
            elif self._mail.server:
                mails.append((row, notice.target))
            else:
                hopeless.append((row.id, _EVENTS[NoticeWay.MAIL], "no mail server is configured (mail.server)"))
        with connection.transaction():
            notices.remove(connection, unwanted)
            notices.give_up(connection, hopeless)
        return len(unwanted) + len(hopeless) + self._post(connection, mails) + self._run(commands)

    def _wish(self, row: NoticeRow) -> Notice | None:
        """Return how the recipient wants to get the notice; None: not at all."""
        if not row.subject:
            to_admin = self._mail.server and self._mail.recipient
            return Notice(frozenset(Tag), NoticeWay.MAIL, self._mail.recipient) if to_admin else None
        try:
            return parse_notice(row.notify)
        except UsageError:
            # written by hand into the database
            return None

    def _post(self, connection: Connection, mails: Sequence[tuple[NoticeRow, str]]) -> int:
        """Hand mails to the server, one connection at a time."""
        if self._mailing or not mails:
            return 0
        instance = site.instance(connection)
        letters = [(row, self._letters.letter(row, recipient, instance)) for row, recipient in mails]
        self._mailing = {row.id: row for row, _ in letters}
        threading.Thread(target=self._send, args=(letters,), name="mail", daemon=True).start()
        return len(mails)

    def _send(self, letters: Sequence[tuple[NoticeRow, Letter]]) -> None:
        rows = [row for row, _ in letters]
        send(
            [letter for _, letter in letters],
            self._mail,
            lambda place, failure: self._report(_Told(rows[place], NoticeWay.MAIL, failure)),
        )

    def _run(self, commands: Sequence[tuple[NoticeRow, str]]) -> int:
        """Start commands as far as there are places: a few for each user, one for each job."""
        users = Counter(row.user for row in self._running.values())
        subjects = {row.subject for row in self._running.values()}
        begun = 0
        for row, command in commands:
            if len(self._running) >= _COMMANDS:
                break
            if users[row.user] >= _COMMANDS_PER_USER or row.subject in subjects:
                continue
            users[row.user] += 1
            subjects.add(row.subject)
            self._running[row.id] = row
            threading.Thread(target=self._execute, args=(row, command), name="exec", daemon=True).start()
            begun += 1
        return begun

    def _execute(self, row: NoticeRow, command: str) -> None:
        words = [*command.split(), str(row.number), row.name, row.tag, row.comment]
        reason = run_as_user(words, row.user, self._jobs.notify_prefix, self._jobs.notify_timeout)
        self._report(_Told(row, NoticeWay.EXEC, Failure(reason, permanent=True) if reason else None))

    def _report(self, result: _Told) -> None:
        self._told.put(result)
        self._bell.ring()
