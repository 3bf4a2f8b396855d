"""Applications: jobs that choose their own hosts. Their views, their requests, and the hosts that are kept for them.

Any running job may have extensions, and resizes.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Double, ForeignKey, Identity, Index, Integer, Text, text
from sqlalchemy.dialects.postgresql import ARRAY, INT4MULTIRANGE, INTERVAL, JSONB

from oarpy.store.schema.columns import CLOCK, INSTANT, MANY, NOW, column, rule, table
from oarpy.store.schema.jobs import of_job

application_states = table(
    "application_states",
    "the states of an application",
    column("state", Text, "name of the state", key=True),
)

application_moves = table(
    "application_moves",
    "the allowed moves between states of applications, for every SQL client",
    column("from_state", Text, "state before", ForeignKey(application_states.c.state), key=True),
    column("to_state", Text, "state after", ForeignKey(application_states.c.state), key=True),
    column("event", Text, "when such a move is made"),
)

applications = table(
    "applications",
    "jobs that choose their own hosts, with what their launchers said and were told",
    of_job("the job", key=True),
    column(
        "state",
        Text,
        "present state; application_moves says what may follow",
        ForeignKey(application_states.c.state),
        default="Submitted",
    ),
    column("subscribed_at", INSTANT, "when it came", default=NOW),
    column("first_asked_at", INSTANT, "when it first asked for hosts", optional=True),
    column("filter", JSONB, "which clusters it wants to be shown", default="{}"),
    column("level", Text, "what it counts: host, or a level of the hierarchy", default="host", check="level <> ''"),
    column("exact", Boolean, "whether it is also told which hosts are free throughout", default=False),
    column(
        "if_lost",
        Text,
        "what becomes of it when its launcher is lost: end or keep",
        default="end",
        check="if_lost IN ('end', 'keep')",
    ),
    column("token_hash", Text, "SHA-256 of the secret by which its launcher may come back", default=""),
    column("tag", JSONB, "name that the launcher gave the present request", optional=True),
    column("hosts", JSONB, "hosts that are asked for, by cluster", optional=True),
    column(
        "walltime",
        INTERVAL,
        "for how long they are asked for",
        optional=True,
        check="EXTRACT(epoch FROM walltime) > 0",
    ),
    column("requests", Integer, "how many requests it has made", default=0, check="requests >= 0"),
    column("serial", BigInteger, "number of the last view", default=0, check=f"serial BETWEEN 0 AND {MANY}"),
    column("view", JSONB, "the last view: number of its last change and profile, by cluster", default="{}"),
    column("answered", BigInteger, "number of the last view that was answered", default=0),
    column("told", JSONB, "the last estimate: tag, start, verdict, reason", optional=True),
    column("lost_since", INSTANT, "since when nobody speaks for it; NULL while somebody does", optional=True),
    column(
        "ended",
        Text,
        "how it ended",
        optional=True,
        check="ended IN ('done', 'walltime', 'deleted', 'lost', 'error')",
    ),
    column(
        "free_groups", JSONB, "hosts free throughout: number of their last change and groups, by cluster", default="{}"
    ),
    column("informed", JSONB, "clusters whose facts or links it was told of: views and marks of these", default="{}"),
    column(
        "launcher",
        Text,
        "the program that speaks for it, which the cluster runs; NULL: somebody else runs it",
        optional=True,
        check="launcher <> ''",
    ),
    rule("applications_request_whole", "((hosts IS NULL) = (walltime IS NULL)) AND ((hosts IS NULL) = (tag IS NULL))"),
    rule("applications_asked_with_request", "(hosts IS NULL) OR (first_asked_at IS NOT NULL)"),
    rule(
        "applications_asked_when_in_line", "(state NOT IN ('RequestSent', 'Waiting', 'Started')) OR (hosts IS NOT NULL)"
    ),
    rule("applications_answer_to_a_view", "answered BETWEEN 0 AND serial"),
    Index("applications_live", "job_id", unique=True, postgresql_where=text("state <> 'Finished'")),
    Index(
        "applications_unattended",
        "job_id",
        postgresql_where=text("launcher IS NOT NULL AND lost_since IS NOT NULL AND ended IS NULL"),
    ),
)

ghosts = table(
    "ghosts",
    "hosts that jobs have freed and that are kept back for a moment",
    of_job("who freed them", key=True),
    column("made_at", INSTANT, "when a pass made it"),
    column("until", INSTANT, "when it ends at the latest"),
    column("resources", INT4MULTIRANGE, "numbers of the resources that it still keeps"),
    column("owed_by", ARRAY(BigInteger), "applications that were shown it and owe an answer", default="{}"),
    column("owed_since", ARRAY(BigInteger), "the numbers of the views that showed it to them", default="{}"),
    rule("ghosts_forward", "until >= made_at"),
    rule("ghosts_owed_whole", "cardinality(owed_by) = cardinality(owed_since)"),
)

cluster_links = table(
    "cluster_links",
    "what clusters have between them, as an admin says (oaradmin links)",
    column("cluster", Text, "one of the two", key=True, check="cluster <> ''"),
    column("other", Text, "the other one, later in alphabetical order", key=True),
    column("latency", Double, "seconds", check="latency >= 0"),
    column("bandwidth", Double, "bytes a second", check="bandwidth > 0"),
    rule("cluster_links_ordered", 'cluster COLLATE "C" < other COLLATE "C"'),
)

extension_moves = table(
    "extension_moves",
    "the allowed moves between states of extensions, for every SQL client",
    column("from_state", Text, "state before", key=True),
    column("to_state", Text, "state after", key=True),
    column("event", Text, "when such a move is made"),
)

extensions = table(
    "extensions",
    "hosts that are asked for jobs that run",
    column("extension_id", BigInteger, "number of the extension", Identity(), key=True, check="extension_id > 0"),
    of_job("the job that grows"),
    column(
        "kind",
        Text,
        "firm: until the end of the job; revocable: until somebody needs them",
        check="kind IN ('firm', 'revocable')",
    ),
    column("tag", JSONB, "name that the launcher gave it", optional=True),
    column("hosts", JSONB, "how many hosts, by cluster", check="jsonb_typeof(hosts) = 'object'"),
    column("asked_at", INSTANT, "when it was asked for, which ranks it", default=CLOCK),
    column(
        "state",
        Text,
        "present state; extension_moves says what may follow",
        default="Waiting",
        check="state IN ('Waiting', 'Granting', 'Granted', 'Withdrawn', 'Over')",
    ),
    column("told", JSONB, "the last estimate: tag, start, verdict, reason", optional=True),
    Index("extensions_job", "job_id"),
    Index("extensions_live", "job_id", postgresql_where=text("state IN ('Waiting', 'Granting', 'Granted')")),
    Index("extensions_asked", "job_id", "kind", unique=True, postgresql_where=text("state = 'Waiting'")),
)

resizes = table(
    "resizes",
    "what the nodes of running jobs are to be told: hosts that come or go",
    column("resize_id", BigInteger, "number of the resize", Identity(), key=True, check="resize_id > 0"),
    of_job("the job"),
    column("resource_ids", ARRAY(Integer), "the resources that come or go", check="resource_ids <> '{}'"),
    column(
        "kind",
        Text,
        "grant: they come; release: the job gives them back; take: they are taken from it",
        check="kind IN ('grant', 'release', 'take')",
    ),
    column(
        "extension_id",
        BigInteger,
        "the extension that is granted",
        ForeignKey(extensions.c.extension_id, ondelete="CASCADE"),
        optional=True,
    ),
    column("asked_at", INSTANT, "when", default=CLOCK),
    column("done_at", INSTANT, "when the nodes had confirmed, or the job was over; NULL before", optional=True),
    rule("resizes_grant_extensions", "kind = 'take' OR (kind = 'grant') = (extension_id IS NOT NULL)"),
    Index("resizes_job", "job_id"),
    Index("resizes_extension", "extension_id"),
    Index("resizes_open", "job_id", postgresql_where=text("done_at IS NULL")),
)
