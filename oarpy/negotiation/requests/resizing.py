"""``oarresize``, and the requests of launchers while their jobs run: more hosts, and hosts given back.

An extension passes the admission rules as a submission does, with the remaining time of the job as its walltime.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from oarpy.client.rendering import JsonValue, local_date
from oarpy.client.session import Session
from oarpy.client.submission import submission
from oarpy.model.errors import AdmissionRefused, NotFound, OarpyError, Unreachable, UsageError
from oarpy.model.job_types import read_types
from oarpy.model.request import ResourceRequest
from oarpy.model.states import ExtensionState, JobState
from oarpy.negotiation.core.clusters import HOST, HostCluster
from oarpy.negotiation.messages import ClusterFilter
from oarpy.negotiation.passes.extension_line import host_group
from oarpy.negotiation.requests.application_requests import host_groups, shown_clusters
from oarpy.negotiation.store import applications
from oarpy.store.jobs import extensions, resizes, submissions
from oarpy.store.jobs.extensions import ExtensionRow
from oarpy.store.jobs.resizes import ResizableJob

ANY = ""
"""The empty name, which stands for hosts of any cluster."""
STARTED = (JobState.TO_LAUNCH, JobState.LAUNCHING, JobState.RUNNING, JobState.SUSPENDED, JobState.RESUMING)
_PATIENCE = 5.0
_LOOK = 0.1
"""Seconds between two looks for an answer."""
_LONGEST = 6
"""Digits of a number of hosts."""


@dataclass(frozen=True, slots=True)
class ResizeAnswer:
    """The result of a resize: hosts that were ``granted`` or ``released``, or an estimate of the ``pending`` part."""

    job: int
    granted: tuple[str, ...] = ()
    released: tuple[str, ...] = ()
    pending: Mapping[str, JsonValue] | None = None


@dataclass(frozen=True, slots=True)
class ClusterRoom:
    """The clusters of which a job may ask for more hosts, or for more blocks of a level.

    ``counts`` has how many an application holds of each, or waits for as hosts of the other kind; None for other jobs.
    """

    level: str
    clusters: Mapping[str, HostCluster]
    counts: Mapping[str, int] | None

    def chosen(self, hosts: Mapping[str, int]) -> Mapping[str, int]:
        """Return the requested numbers by cluster; for an application, hosts of any cluster get one.

        That is the first cluster with room for them, preferably one that it has hosts of. Raises
        :class:`AdmissionRefused` if the application would have more of a cluster than is allowed.
        """
        if self.counts is None:
            return hosts
        if ANY in hosts:
            hosts = {self._with_room(hosts[ANY]): hosts[ANY]}
        for name, count in hosts.items():
            cluster, has = self.clusters.get(name), self.counts.get(name, 0)
            if cluster is not None and cluster.most < cluster.size and has + count > cluster.most:
                raise AdmissionRefused(
                    f"{count} more {self.level}s of cluster '{name[:60]}' beside {has}",
                    hint=f"one application may have {cluster.most} of {cluster.size}",
                )
        return hosts

    def _with_room(self, count: int) -> str:
        counts = self.counts or {}
        for cluster in sorted(self.clusters.values(), key=lambda cluster: not counts.get(cluster.name)):
            if counts.get(cluster.name, 0) + count <= cluster.most:
                return cluster.name
        raise AdmissionRefused(f"no cluster has {count} more {self.level}s for it", hint="+N@CLUSTER names one")


def extend(
    session: Session, job_id: int, hosts: Mapping[str, int], kind: str, tag: str | int | None = None
) -> int | None:
    """Ask for more hosts for a running job, in place of the pending request of that kind; return its number.

    ``hosts`` are numbers by cluster; none withdraws the pending request. Raises :class:`NotFound`, :class:`NotAllowed`,
    :class:`OarpyError` for a job that does not run, and the errors of the rules and the limits of the site.
    """
    connection = session.connection
    with connection.transaction():
        job = _job(session, job_id)
        room = _room(session, job_id, kind) if hosts else ClusterRoom(HOST, {}, None)
    if job.state not in STARTED:
        raise OarpyError(f"job {job_id} is {job.state}: only a job that runs can get more hosts")
    types = read_types(job.types)
    if not types.alone or types.guest:
        raise AdmissionRefused(f"job {job_id} shares its resources", hint="only jobs with hosts of their own grow")
    if hosts:
        hosts = room.chosen(hosts)
        request = _request(hosts, room.clusters, room.level, job.seconds_left)
        more = {"alternatives": (request,), "reservation": None, "array_size": 1, "dependencies": ()}
        submission.readmitted(session, submissions.record_of(connection, job_id), more)
    with connection.transaction():
        if not extensions.lock(connection, job_id):
            raise OarpyError(f"job {job_id} has ended meanwhile")
        return extensions.ask(connection, job_id, kind, tag, hosts)


def release(session: Session, job_id: int, names: Sequence[str]) -> int | None:
    """Give hosts of a running job back; return the number of the resize, None when all are on their way already.

    Raises :class:`NotFound` for a host that it does not hold, :class:`AdmissionRefused` for the first one.
    """
    connection = session.connection
    with connection.transaction():
        job = _job(session, job_id)
        if job.state in STARTED and job.state != JobState.RUNNING:
            raise Unreachable(f"job {job_id} is {job.state}", hint="try again when it runs")
        if job.state != JobState.RUNNING:
            raise OarpyError(f"job {job_id} is {job.state}: only a job that runs can give hosts back")
        held = applications.held_hosts(connection, [job_id]).get(job_id, {})
        for name in names:
            if name not in held:
                raise NotFound(f"job {job_id} has no host '{name[:60]}'", hint=f"it has {', '.join(held)[:200]}")
            if name == job.first_host:
                raise AdmissionRefused(
                    f"'{name}' is the first host of job {job_id}", hint="it stays until the job ends"
                )
        return resizes.order(connection, job_id, "release", [resource for name in names for resource in held[name]])


def extended(session: Session, job_id: int, number: int) -> ResizeAnswer:
    """Wait a little until an extension is granted or has an estimate; return its state.

    Raises :class:`OarpyError` if it got no hosts and will get none.
    """
    connection = session.connection
    row = extensions.one(connection, number)
    for _ in _looks():
        if row.state != ExtensionState.GRANTING and (row.state != ExtensionState.WAITING or row.told):
            break
        row = extensions.one(connection, number)
    if row.state == ExtensionState.GRANTED:
        return ResizeAnswer(job_id, granted=tuple(extensions.hosts_of(connection, number)))
    if row.state in (ExtensionState.WITHDRAWN, ExtensionState.OVER):
        raise OarpyError(_end_of(session, row))
    estimate = dict(row.told or {})
    pending: dict[str, JsonValue] = {
        "hosts": dict(row.hosts),
        "start": estimate.get("start"),
        "reason": estimate.get("reason", ""),
    }
    return ResizeAnswer(job_id, pending=pending)


def _end_of(session: Session, row: ExtensionRow) -> str:
    """Return why an extension is not pending any more, and was not granted."""
    if row.state == ExtensionState.WITHDRAWN:
        return f"job {row.job} gets no hosts by this: what was asked for {row.kind} later has taken its place"
    job = resizes.job(session.connection, row.job)
    if job is None or job.state not in STARTED:
        return f"job {row.job} has ended meanwhile"
    if why := (row.told or {}).get("refused"):
        return f"job {row.job} does not get the hosts that it was to have: {why}"
    return f"job {row.job} does not have these hosts: one was lost and others are looked for, or it has left them again"


def released(session: Session, job_id: int, number: int | None, names: Sequence[str]) -> ResizeAnswer:
    """Wait a little until hosts are given back; return the state of the resize."""
    for _ in _looks():
        if number is None or not resizes.is_open(session.connection, number):
            break
    if number is None or resizes.is_open(session.connection, number):
        return ResizeAnswer(job_id, pending={"release": list(names)})
    return ResizeAnswer(job_id, released=tuple(names))


def as_text(answer: ResizeAnswer) -> str:
    """Return an answer for people, in one line."""
    if answer.granted:
        return f"Granted: job {answer.job} has {', '.join(answer.granted)}.\n"
    if answer.released:
        return f"Released: job {answer.job} has {', '.join(answer.released)} no more.\n"
    if answer.pending is None:
        return f"Accepted: nothing is pending any more for job {answer.job}.\n"
    start, reason = answer.pending.get("start"), answer.pending.get("reason")
    when = f", foreseen for {local_date(start)}" if isinstance(start, int | float) else ""
    return f"Pending for job {answer.job}{when}{f': {reason}' if reason else ''}.\n"


def record(answer: ResizeAnswer) -> JsonValue:
    """Return an answer for programs."""
    return {
        "action": "resize",
        "job": answer.job,
        "granted": answer.granted,
        "released": answer.released,
        "pending": answer.pending,
    }


def read_change(text: str) -> tuple[dict[str, int], tuple[str, ...]]:
    """Return how many hosts of which cluster ``+N[@CID]`` asks for, or the names of ``-HOST[,HOST]``.

    ``+0`` asks for none. Raises :class:`UsageError` for anything else.
    """
    sign, rest = text[:1], text[1:]
    number, at, name = rest.partition("@")
    if sign == "+" and number.isascii() and number.isdecimal() and len(number) <= _LONGEST and bool(at) == bool(name):
        return ({name: int(number)} if int(number) else {}), ()
    names = tuple(dict.fromkeys(rest.split(",")))
    if sign == "-" and all(names):
        return {}, names
    raise UsageError(f"'{text[:60]}' is no change of hosts", hint="+2, +2@CLUSTER, or -HOST,HOST")


def _looks() -> Iterator[None]:
    """Yield in regular intervals, as long as a caller should wait for an answer."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        time.sleep(_LOOK)
        yield


def _job(session: Session, job_id: int) -> ResizableJob:
    job = resizes.job(session.connection, job_id)
    if job is None:
        raise NotFound(f"job {job_id} does not exist", hint="oarstat lists the jobs")
    session.require_owner(job.user, f"job {job_id}")
    return job


def _room(session: Session, job_id: int, kind: str) -> ClusterRoom:
    """Return the clusters that a job may have hosts of: those shown to an application, all for other jobs."""
    connection = session.connection
    row = applications.named(connection, [job_id]).get(job_id)
    shown = shown_clusters(session)
    if row is None:
        return ClusterRoom(
            HOST, {cluster.name: cluster for cluster in shown.passing(connection, ClusterFilter())}, None
        )
    passing = shown.passing(connection, ClusterFilter.read(dict(row.filter)), row.level)
    hosts = applications.held_hosts(connection, [job_id]).get(job_id, {})
    bits = shown.platform.bits_of(number for resources in hosts.values() for number in resources)
    counts = {cluster.name: sum(bool(part & bits) for part in cluster.sets) for cluster in passing}
    for other in extensions.of_jobs(connection, [job_id]):
        if other.state == ExtensionState.WAITING and other.kind != kind:
            counts = {name: count + other.hosts.get(name, 0) for name, count in counts.items()}
    return ClusterRoom(row.level, {cluster.name: cluster for cluster in passing}, counts)


def _request(hosts: Mapping[str, int], clusters: Mapping[str, HostCluster], level: str, left: float) -> ResourceRequest:
    """Return more hosts as a request of ``oarsub -l`` for the time that the job has left (seconds)."""
    named = {name: count for name, count in hosts.items() if name != ANY}
    anywhere = (host_group(hosts[ANY], None, HOST),) if ANY in hosts else ()
    return ResourceRequest((*anywhere, *host_groups(named, clusters, level)), walltime=max(math.ceil(left), 1))
