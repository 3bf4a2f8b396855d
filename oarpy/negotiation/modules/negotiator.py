"""The negotiator as a module: one loop over the connections of all launchers, which waits for none of them."""

from __future__ import annotations

import hashlib
import hmac
import json
import pwd
import selectors
import socket
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import structlog

from oarpy.cluster_state.snapshot_reader import SnapshotReader
from oarpy.configuration import Configuration
from oarpy.model.states import NegotiationState
from oarpy.modules.loop.module import Outcome
from oarpy.negotiation.core.clusters import HOST
from oarpy.negotiation.messages import (
    AGAINST_RULES,
    MALFORMED,
    NOT_ALLOWED,
    TRY_LATER,
    UNKNOWN,
    WRONG_MOMENT,
    Attach,
    ExtendHosts,
    GiveBack,
    KeepRequest,
    LauncherMessage,
    ListClustersInfo,
    ReleaseHosts,
    RequestHosts,
    SignAsked,
    Subscribe,
    Unreadable,
    read,
)
from oarpy.negotiation.modules import handover, launcher_messages
from oarpy.negotiation.modules.conversation import Conversation
from oarpy.negotiation.modules.first_view import first_view
from oarpy.negotiation.modules.gateway_call import GatewayCall
from oarpy.negotiation.modules.resize_messages import ResizeMessages
from oarpy.negotiation.passes.cluster_facts import ClusterFacts
from oarpy.negotiation.passes.shown_clusters import ShownClusters
from oarpy.negotiation.store import applications, growth, unattended
from oarpy.negotiation.store.applications import ApplicationRow
from oarpy.negotiation.store.growth import JobGrowth
from oarpy.negotiation.store.row_faults import fault
from oarpy.store import notifications
from oarpy.store.database import Connection
from oarpy.store.jobs.kill_requests import ask_once
from oarpy.store.platform import cluster_links
from oarpy.wire.messages import APPLICATION_DONE

log = structlog.get_logger()

_SWEEP = 2.0
"""Seconds between two checks for silent, lost or overdue launchers."""


class Negotiator:
    """Serves launchers. For each it remembers only how far the launcher knows the rows."""

    name = "negotiator"
    period = 5.0

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._settings = configuration.negotiation
        self._reader = SnapshotReader(configuration)
        self._selector = selectors.DefaultSelector()
        self._listening: socket.socket | None = None
        self._most = self._settings.connections
        self._conversations: dict[Conversation, None] = {}
        self._speakers: dict[int, Conversation] = {}
        self._per_user: Counter[int] = Counter()
        self._kept: dict[Conversation, KeepRequest] = {}
        """Answers that keep requests, until they are written; each is the first line of its conversation."""
        self._come: set[int] = set()
        self._gone: set[int] = set()
        """Jobs whose launchers came or left, until that is written."""
        self._done_early = True
        """Whether there may be finished applications whose jobs have no request to end yet."""
        self._swept = 0.0

    def files(self) -> Sequence[int]:
        """Return the descriptor that is readable when any connection is."""
        return [self._selector.fileno()]

    def run_once(self, connection: Connection, now: datetime) -> Outcome:
        """Handle the messages of launchers, and send news to them."""
        if self._listening is None:
            self._most = handover.room(self._settings.connections)
            self._listening = handover.listen(self._configuration)
            self._selector.register(self._listening, selectors.EVENT_READ, None)
            applications.note_all_lost(connection)
            notifications.tell(connection, "launcher")
        moment = time.monotonic()
        for conversation in [
            conversation for conversation in self._conversations if conversation.lines and conversation.call is None
        ]:  # the database was away
            self._listen_to(connection, conversation, moment)
            self._watch(conversation)
        for key, events in self._selector.select(0):
            if key.data is None:
                self._accept(moment)
            elif isinstance(key.fileobj, socket.socket):
                self._serve(connection, key.data, key.fileobj, events, moment)
        while self._kept:
            self._note_kept(connection, moment)
        self._note_presence(connection)
        if self._done_early:
            self._end_done(connection)
        self._tell(connection, moment)
        if moment - self._swept >= _SWEEP:
            self._sweep(connection, moment)
            self._swept = moment
        return Outcome(word="", wake_at=time.time() + _SWEEP if self._conversations or self._done_early else None)

    def close(self) -> None:
        """Leave the launchers; they attach again to the next negotiator."""
        for conversation in list(self._conversations):
            conversation.socket.close()

    # Connections

    def _accept(self, moment: float) -> None:
        assert self._listening is not None
        while True:
            try:
                received = handover.receive(self._listening)
            except OSError:
                return
            if received is None:
                continue
            connection, speaking = received
            conversation = Conversation(connection, speaking, moment, self._settings.message_rate)
            self._conversations[conversation] = None
            self._per_user[speaking.uid] += 1
            self._selector.register(connection, selectors.EVENT_READ, conversation)
            if self._per_user[speaking.uid] > self._settings.connections_per_user:
                conversation.refuse(
                    None, AGAINST_RULES, "too many connections of yours (negotiation.connections_per_user)", moment
                )
                conversation.closing = True
            elif len(self._conversations) > self._most:
                conversation.refuse(None, AGAINST_RULES, "too many connections (negotiation.connections)", moment)
                conversation.closing = True
            else:
                conversation.flush()
            self._watch(conversation)

    def _serve(
        self, connection: Connection, conversation: Conversation, ready: socket.socket, events: int, moment: float
    ) -> None:
        if conversation not in self._conversations:
            return
        if conversation.call is not None and ready is conversation.call.socket:
            conversation.call.step()
            if conversation.call.status is not None:
                self._answered(conversation, conversation.call, moment)
        elif events & selectors.EVENT_WRITE:
            conversation.send_on(moment)
            conversation.seen = None
        elif conversation.reads:
            conversation.read(moment)
        self._listen_to(connection, conversation, moment)
        self._watch(conversation)

    def _watch(self, conversation: Conversation) -> None:
        """Wait for the events that the conversation needs; forget a conversation that is over."""
        if conversation.over:
            self._forget(conversation)
            return
        events = (selectors.EVENT_READ if conversation.reads else 0) | (
            selectors.EVENT_WRITE if conversation.unsent else 0
        )
        known = self._selector.get_map().get(conversation.socket)
        if not events and known is not None:
            self._selector.unregister(conversation.socket)
        elif events and known is None:
            self._selector.register(conversation.socket, events, conversation)
        elif events and known is not None and known.events != events:
            self._selector.modify(conversation.socket, events, conversation)

    def _forget(self, conversation: Conversation) -> None:
        if conversation.socket in self._selector.get_map():
            self._selector.unregister(conversation.socket)
        if conversation.call is not None:
            self._hang_up(conversation)
        conversation.socket.close()
        self._kept.pop(conversation, None)
        del self._conversations[conversation]
        self._per_user[conversation.speaking.uid] -= 1
        if conversation.job is not None and self._speakers.get(conversation.job) is conversation:
            del self._speakers[conversation.job]
            if not conversation.ended:
                self._gone.add(conversation.job)

    # Messages of launchers

    def _listen_to(self, connection: Connection, conversation: Conversation, moment: float) -> None:
        """Take lines until one must wait. A line is handled again if the database was lost meanwhile."""
        while (
            conversation.lines
            and conversation.call is None
            and not conversation.closing
            and conversation not in self._kept
        ):
            try:
                message = read(conversation.lines[0])
                if isinstance(message, KeepRequest) and conversation.job is not None:
                    self._kept[conversation] = message
                    return
                self._hear(connection, conversation, message, moment)
            except Unreadable as error:
                conversation.refuse(error.word, MALFORMED, str(error), moment, error.tag)
            conversation.lines.popleft()

    def _hear(
        self, connection: Connection, conversation: Conversation, message: LauncherMessage, moment: float
    ) -> None:
        match message:
            case SignAsked():
                conversation.say({"message": "pong"}, moment)
            case Subscribe():
                self._subscribe(conversation, message, moment)
            case Attach():
                self._attach(connection, conversation, message, moment)
            case ListClustersInfo():
                self._inform(connection, conversation, message, moment)
            case _ if message.WORD == "pong":
                return
            case _ if conversation.job is None:
                reason = "this connection has no job yet: subscribe or attach first"
                conversation.refuse(message.WORD, WRONG_MOMENT, reason, moment, getattr(message, "tag", None))
            case ExtendHosts() | ReleaseHosts() if not self._runs(
                connection, conversation, message.WORD, getattr(message, "tag", None), moment
            ):
                return
            case RequestHosts() | ExtendHosts() | ReleaseHosts():
                conversation.tag = getattr(message, "tag", None)
                words = json.dumps({"message": message.WORD, **message.entry()})
                self._call(
                    conversation,
                    message.WORD,
                    "oarnegotiate",
                    ["--ask", str(conversation.job), "--request", words],
                    moment,
                )
            case GiveBack():
                self._done(connection, conversation, moment)

    def _call(self, conversation: Conversation, of: str, command: str, arguments: Sequence[str], moment: float) -> None:
        """Let the gateway run a command as the speaking user."""
        path = self._configuration.gateway.socket
        conversation.call, conversation.calling = (
            GatewayCall(path, conversation.speaking, conversation.owner_uid, command, arguments),
            of,
        )
        self._selector.register(conversation.call.socket, selectors.EVENT_READ, conversation)
        conversation.call.step()
        if conversation.call.sending:
            self._selector.modify(conversation.call.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, conversation)

    def _hang_up(self, conversation: Conversation) -> None:
        assert conversation.call is not None
        self._selector.unregister(conversation.call.socket)
        conversation.call.close()
        conversation.call = None

    def _answered(self, conversation: Conversation, call: GatewayCall, moment: float) -> None:
        self._hang_up(conversation)
        if call.status:
            code = call.status if 1 <= call.status <= TRY_LATER else TRY_LATER
            conversation.refuse(conversation.calling, code, call.reason(), moment, conversation.tag)
        elif conversation.calling == Subscribe.WORD:
            self._subscribed(conversation, call, moment)
        conversation.tag = None

    def _subscribed(self, conversation: Conversation, call: GatewayCall, moment: float) -> None:
        answer = call.answer()
        job = answer.get("job")
        if not isinstance(job, int):
            reason = "arguments: such an option makes no job; leave out what only prints something"
            conversation.refuse(conversation.calling, MALFORMED, reason, moment)
            return
        conversation.say({"message": "subscribed", **answer}, moment)
        self._speak_for(conversation, job)
        conversation.serial = 0

    def _speak_for(self, conversation: Conversation, job: int) -> None:
        """Make this conversation that of a job; an older conversation ends."""
        older = self._speakers.get(job)
        if older is not None and older is not conversation:
            older.job = None
            older.closing = True
            older.flush()
            self._watch(older)
        conversation.job = job
        self._speakers[job] = conversation
        self._come.add(job)

    def _subscribe(self, conversation: Conversation, message: Subscribe, moment: float) -> None:
        if conversation.job is not None:
            conversation.refuse(
                message.WORD, WRONG_MOMENT, f"this connection has job {conversation.job} already", moment
            )
            return
        words = json.dumps({"message": message.WORD, **message.entry(), "arguments": []})
        self._call(conversation, message.WORD, "oarsub", ["--subscribe", words, *message.arguments], moment)

    def _attach(self, connection: Connection, conversation: Conversation, message: Attach, moment: float) -> None:
        if conversation.job not in (None, message.job):
            conversation.refuse(
                message.WORD, WRONG_MOMENT, f"this connection has job {conversation.job} already", moment
            )
            return
        applications.note_ends(connection, [message.job])
        row = applications.named(connection, [message.job]).get(message.job)
        if row is None or not _may_attach(row, conversation, message.token):
            conversation.refuse(
                message.WORD, NOT_ALLOWED, f"there is no job {message.job} of yours that negotiates", moment
            )
            return
        if not _readable({row.job: row}):
            conversation.refuse(
                message.WORD, TRY_LATER, f"the rows of job {row.job} cannot be read (oarpy db check)", moment
            )
            return
        conversation.owner_uid = _uid_of(row.user, conversation.speaking.uid)
        self._speak_for(conversation, row.job)
        conversation.say(launcher_messages.attached(row), moment)
        conversation.serial, conversation.estimate, conversation.placed, conversation.ended, conversation.seen = (
            row.serial,
            None,
            None,
            False,
            None,
        )
        conversation.growth = ResizeMessages()
        since = message.serial
        if since is not None and since > row.serial:  # the database was restored, the views seen are not known
            since = None
        if (
            row.serial
            and row.state in launcher_messages.SHOWN
            and launcher_messages.has_news(changed := launcher_messages.view(row, since))
        ):
            conversation.say(changed, moment)

    def _inform(
        self, connection: Connection, conversation: Conversation, message: ListClustersInfo, moment: float
    ) -> None:
        with connection.transaction():
            clusters = self._clusters(connection)
            known = cluster_links.links(connection)
            row = applications.named(connection, [conversation.job]).get(conversation.job) if conversation.job else None
        counted = clusters.at(row.level if row else HOST)
        unknown = sorted({*(message.clusters or ())} - {each.name for each in counted})
        if unknown:
            reason = f"there is no cluster '{unknown[0][:60]}': there are {', '.join(each.name for each in counted)}"
            conversation.refuse(message.WORD, UNKNOWN, reason, moment)
            return
        facts = ClusterFacts(counted, known, self._configuration.scheduler.security_time)
        conversation.say(facts.message(message.clusters), moment)

    def _note_kept(self, connection: Connection, moment: float) -> None:
        """Write the answers of all launchers that keep their requests, at once, and handle their next lines."""
        serials = {
            conversation.job: message.serial
            for conversation, message in self._kept.items()
            if conversation.job is not None
        }
        noted = applications.keep(connection, serials)
        kept, self._kept = self._kept, {}
        for conversation, message in kept.items():
            if conversation.job is not None and conversation.job not in noted:
                self._refuse_keep(connection, conversation, message, moment)
            conversation.lines.popleft()
            self._listen_to(connection, conversation, moment)
            self._watch(conversation)

    def _refuse_keep(
        self, connection: Connection, conversation: Conversation, message: KeepRequest, moment: float
    ) -> None:
        assert conversation.job is not None
        row = applications.named(connection, [conversation.job])[conversation.job]
        if row.state in launcher_messages.SHOWN:
            conversation.refuse(
                message.WORD,
                MALFORMED,
                f"serial {message.serial} was never sent, the last view is {row.serial}",
                moment,
            )
        else:
            conversation.refuse(message.WORD, WRONG_MOMENT, "the job has started, or is over", moment)

    def _runs(self, connection: Connection, conversation: Conversation, of: str, tag: object, moment: float) -> bool:
        """Tell whether the application has started and has no known end; refuse message ``of`` if not."""
        assert conversation.job is not None
        applications.note_ends(connection, [conversation.job])
        if applications.named(connection, [conversation.job])[conversation.job].state == NegotiationState.STARTED:
            return True
        conversation.refuse(of, WRONG_MOMENT, "the job has not started, or is over", moment, tag)
        return False

    def _done(self, connection: Connection, conversation: Conversation, moment: float) -> None:
        assert conversation.job is not None
        if self._runs(connection, conversation, GiveBack.WORD, None, moment):
            applications.send_finish(connection, [conversation.job], "done")
            self._done_early = True

    def _end_done(self, connection: Connection) -> None:
        """Ask for the end of jobs whose applications are done, as soon as they run."""
        with connection.transaction():
            running, self._done_early = applications.done(connection)
            ask_once(connection, [(job, APPLICATION_DONE) for job in running], "negotiator")

    def _end_late(self, connection: Connection, jobs: Sequence[int]) -> None:
        """Ask for the end of jobs whose launchers are lost or never asked."""
        with connection.transaction():
            applications.send_finish(connection, jobs, "lost")
            ask_once(connection, [(job, "application lost") for job in jobs], "negotiator")

    def _note_presence(self, connection: Connection) -> None:
        """Write the launchers that came and left since the last writing."""
        if self._come:
            applications.note_present(connection, sorted(self._come))
            self._come.clear()
        if self._gone:
            lost = sorted(self._gone - self._speakers.keys())
            applications.note_lost(connection, lost)
            unattended.tell(connection, lost)
            self._gone.clear()

    # Messages to launchers

    def _tell(self, connection: Connection, moment: float) -> None:
        """Send changes in the rows to launchers that have read their earlier messages."""
        if not self._speakers:
            return
        versions = applications.versions(connection, [*self._speakers])
        changed = [
            job
            for job, conversation in self._speakers.items()
            if not conversation.unsent
            and conversation.call is None
            and not conversation.closing
            and conversation.seen != versions.get(job)
        ]
        if not changed:
            return
        applications.note_ends(connection, changed)
        rows = _readable(applications.named(connection, changed))
        if self._show_first(connection, rows.values()):
            rows = _readable(applications.named(connection, changed))
        started = [row.job for row in rows.values() if row.state == NegotiationState.STARTED]
        grown, names, cluster_of = self._held(connection, started)
        for job in changed:
            conversation = self._speakers[job]
            conversation.seen = versions.get(job)
            if job in rows:
                held = names.get(job, {})
                for message in launcher_messages.news(
                    rows[job], held, cluster_of, grown.get(job, JobGrowth()), conversation
                ):
                    conversation.say(message, moment)
            if conversation.ended:
                conversation.closing = True
            self._watch(conversation)

    def _show_first(self, connection: Connection, rows: Iterable[ApplicationRow]) -> bool:
        """Make the first views of applications without a view; return whether there were any."""
        fresh = [row for row in rows if not row.serial and row.state in launcher_messages.SHOWN]
        for row in fresh:
            with connection.transaction():
                view = first_view(connection, self._reader, self._configuration, row)
                applications.show_first(connection, row.job, view.profiles, view.groups, view.informed)
        return bool(fresh)

    def _held(
        self, connection: Connection, started: Sequence[int]
    ) -> tuple[Mapping[int, JobGrowth], dict[int, dict[str, list[str]]], dict[str, str]]:
        """Return how started applications have grown, the hosts they hold by cluster, and the cluster of any host.

        All data is of one instant: a new host is named either with the start or after it, never both nor neither.
        """
        if not started:
            return {}, {}, {}
        with connection.transaction():
            growth.look_at_once(connection)
            clusters = self._clusters(connection).all
            grown = growth.growth(connection, started)
            held = applications.held_hosts(connection, started)
        of = {host: cluster.name for cluster in clusters for host in cluster.hosts}
        names: dict[int, dict[str, list[str]]] = {}
        for job, hosts in held.items():
            for host in hosts:
                names.setdefault(job, {}).setdefault(of.get(host, "all"), []).append(host)
        return grown, names, of

    def _clusters(self, connection: Connection) -> ShownClusters:
        """Return the clusters as they are now, in the caller's transaction."""
        platform = self._reader.platform(connection, int(time.time()))
        return ShownClusters(self._settings, platform, self._reader.consumables)

    def _sweep(self, connection: Connection, moment: float) -> None:
        """Look for silent, lost and overdue launchers."""
        for conversation in list(self._conversations):
            conversation.tend(moment)
            self._watch(conversation)
        applications.note_ends(connection)
        settings = self._settings
        late = applications.overdue(connection, settings.first_request_timeout, settings.patience)
        if late:
            self._end_late(connection, late)


def _readable(rows: Mapping[int, ApplicationRow]) -> dict[int, ApplicationRow]:
    """Leave out rows with unreadable values; their launchers get no messages until an admin repairs them."""
    faults = {job: column for job, row in rows.items() if (column := fault(row))}
    for job, column in faults.items():
        log.warning("application cannot be read", job=job, column=column)
    return {job: row for job, row in rows.items() if job not in faults}


def _may_attach(row: ApplicationRow, conversation: Conversation, token: str) -> bool:
    """Tell whether the speaker is the job's user, or has its token while the job lives."""
    if token:
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
        return row.state not in launcher_messages.OVER and hmac.compare_digest(digest, row.token_hash)
    return _name_of(conversation.speaking.uid) == row.user


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""


def _uid_of(user: str, otherwise: int) -> int:
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return otherwise
