"""The requests of launchers: jobs that negotiate, and hosts for them; each passes the admission rules."""

from __future__ import annotations

import hashlib
import math
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from oarpy.client.session import Session
from oarpy.client.submission import submission
from oarpy.client.submission.options import Options
from oarpy.client.submission.project_hours import Stored, charge
from oarpy.client.submission.submission import Submitted
from oarpy.model.durations import LONGEST_DURATION
from oarpy.model.errors import AdmissionRefused, NotAllowed, NotFound, OarpyError, UsageError
from oarpy.model.job_types import NEGOTIATED
from oarpy.model.request import Group, ResourceRequest
from oarpy.model.states import NegotiationState
from oarpy.model.submission import OPTIONS
from oarpy.model.submission_checks import LONGEST_PATH
from oarpy.negotiation.core.clusters import HOST, HostCluster
from oarpy.negotiation.messages import ClusterFilter, RequestHosts, Subscribe
from oarpy.negotiation.passes.extension_line import host_group
from oarpy.negotiation.passes.shown_clusters import ShownClusters
from oarpy.negotiation.store import applications, unattended
from oarpy.negotiation.store.row_faults import fault
from oarpy.store.jobs import submissions

_REFUSED_OPTIONS = ("alternatives", "properties", "reservation", "array_size", "array_parameters", "interactive")


def launch(
    session: Session, options: Options, launcher: str, arguments: Sequence[str], environment: Mapping[str, str]
) -> tuple[Submitted, str]:
    """Submit a job whose launcher, a command, the site runs on its host for launchers; return it and its token.

    Raises the errors of :func:`subscribe`.
    """
    if not session.configuration.negotiation.launcher_host:
        raise AdmissionRefused(
            "this site runs no launchers (negotiation.launcher_host is empty)",
            hint="run the launcher yourself, beside oarnegotiate",
        )
    if not launcher.strip() or len(launcher.encode()) > LONGEST_PATH or not launcher.isprintable():
        raise UsageError("--launcher takes a command of one line", hint='oarsub --launcher "./sweep.py 100"')
    return subscribe(session, options, Subscribe(), arguments, environment, launcher)


def subscribe(
    session: Session,
    options: Options,
    message: Subscribe,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    launcher: str | None = None,
) -> tuple[Submitted, str]:
    """Submit a job whose launcher chooses its hosts; return it and its token.

    ``launcher`` is the command that the site runs for it, if any. Raises the errors of
    :func:`oarpy.client.submission.submission.submit`.
    """
    _check_options(options)
    with session.connection.transaction():
        shown = shown_clusters(session)
        clusters = shown.passing(session.connection, message.filter, message.level)
    if message.level != HOST and shown.platform.level(message.level) is None:
        raise AdmissionRefused(f"level '{message.level[:60]}' cannot be counted here", hint="host, core or such")
    if not clusters:
        raise AdmissionRefused("no cluster passes the filter", hint="listClustersInfo tells what there is")
    token = secrets.token_hex(16)
    new = applications.NewApplication(
        message.filter.entry(),
        message.level,
        message.exact,
        message.if_lost,
        hashlib.sha256(token.encode()).hexdigest(),
        launcher,
    )
    types = (*options.lists.get("types", ()), NEGOTIATED)
    options = replace(options, lists={**options.lists, "types": types})
    submitted = submission.submit(
        session, options, arguments, environment, lambda job: applications.add(session.connection, job, new)
    )
    if launcher is not None:
        unattended.tell(session.connection, submitted.job_ids)
    return submitted, token


def _check_options(options: Options) -> None:
    """Raise :class:`UsageError` for options that an application cannot use: its requests say what it needs."""
    given = {*options.texts, *options.lists, *options.flags}
    for name in _REFUSED_OPTIONS:
        if name in given:
            raise UsageError(f"{OPTIONS[name].words[0]} beside a subscription", hint="requests ask for hosts and time")
    if options.scan_script:
        raise UsageError("-S beside a subscription", hint="requests ask for hosts and time")


def ask(session: Session, job_id: int, wanted: RequestHosts) -> None:
    """Ask for hosts for an application of the session's user, in place of its earlier request.

    Raises :class:`NotAllowed` if the job is no application of the user, :class:`OarpyError` if it has started or ended,
    and the errors of the rules and the limits of the site.
    """
    connection = session.connection
    with connection.transaction():
        row = applications.named(connection, [job_id]).get(job_id)
        if row is None or row.user != session.user:
            raise NotAllowed(f"there is no job {job_id} of yours that negotiates", hint="oarstat shows your jobs")
        if column := fault(row):
            raise OarpyError(f"the {column} of job {job_id} cannot be read", hint="an admin sees it by oarpy db check")
        passing = shown_clusters(session).passing(connection, ClusterFilter.read(dict(row.filter)), row.level)
        clusters = {cluster.name: cluster for cluster in passing}
    _check_moment(row.state)
    if wanted.serial is not None and wanted.serial > row.serial:
        raise UsageError(f"serial {wanted.serial} was never sent", hint=f"the last view is {row.serial}")
    request = _request(wanted, clusters, row.level)
    admitted = submission.readmitted(session, submissions.record_of(connection, job_id), {"alternatives": (request,)})
    message = submission.summary(admitted.submission, admitted.need)
    with connection.transaction():
        in_time = submissions.replace_request(connection, job_id, admitted.submission, message)
        in_time = in_time and applications.ask(
            connection, job_id, wanted.tag, wanted.hosts, float(wanted.walltime), wanted.serial
        )
        if not in_time:
            raise OarpyError("the job has started meanwhile", hint="extend asks for more hosts")
        charge(session, [Stored(admitted.submission, admitted.need, [job_id])])


def _check_moment(state: str) -> None:
    if state == NegotiationState.STARTED:
        raise OarpyError("the job has started", hint="extend asks for more hosts")
    if state not in (NegotiationState.SUBMITTED, NegotiationState.REQUEST_SENT, NegotiationState.WAITING):
        raise OarpyError("the job is over", hint="subscribe again")


def _request(wanted: RequestHosts, clusters: Mapping[str, HostCluster], level: str) -> ResourceRequest:
    """Return the request of a launcher as a request of ``oarsub -l``.

    It has a group for each cluster, of whole hosts or of whole blocks of the counted level.
    """
    if not wanted.walltime > 0:
        raise AdmissionRefused(f"walltime {wanted.walltime:g} is not above 0", hint="give seconds above 0")
    if wanted.walltime > LONGEST_DURATION:
        raise AdmissionRefused(f"walltime {wanted.walltime:g} is too long", hint=f"at most {LONGEST_DURATION} seconds")
    return ResourceRequest(host_groups(wanted.hosts, clusters, level), walltime=math.ceil(wanted.walltime))


def host_groups(numbers: Mapping[str, int], clusters: Mapping[str, HostCluster], level: str) -> tuple[Group, ...]:
    """Return numbers of hosts, or of other counted blocks, by cluster as groups of a request.

    Raises :class:`NotFound` for an unknown cluster, :class:`AdmissionRefused` for more hosts than it has.
    """
    groups = []
    for name, hosts in numbers.items():
        cluster = clusters.get(name)
        if cluster is None:
            raise NotFound(f"there is no cluster '{name[:60]}'", hint=f"there are {', '.join(clusters)[:200]}")
        if hosts > cluster.most:
            has = f"it has {cluster.size}"
            hint = has if cluster.most == cluster.size else f"{has}, of which one application may have {cluster.most}"
            raise AdmissionRefused(f"{hosts} {level}s of cluster '{name[:60]}'", hint=hint)
        groups.append(host_group(hosts, cluster.hosts, level))
    return tuple(groups)


def shown_clusters(session: Session) -> ShownClusters:
    """Return the clusters that there are, in the caller's transaction."""
    reader = session.snapshot_reader()
    platform = reader.platform(session.connection, int(time.time()))
    return ShownClusters(session.configuration.negotiation, platform, reader.consumables)
