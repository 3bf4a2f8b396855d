"""The installation, its nodes, its resources and the consumables that jobs share."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Double, ForeignKey, Identity, Index, Integer, Text, text
from sqlalchemy.dialects.postgresql import TSTZRANGE, UUID, ExcludeConstraint

from oarpy.store.schema.columns import INSTANT, MANY, ME, NOW, TransactionNumber, column, rule, table

# its rows, and the rows of the other tables that describe this version, stay: see the function rows_stay
site = table(
    "site",
    "what this installation is; one row",
    column("only_row", Boolean, "always true: keeps the table at one row", default=True, key=True, check="only_row"),
    column("instance", UUID, "number of this installation, never used again", default=text("gen_random_uuid()")),
    column(
        "platform_version",
        BigInteger,
        "changes whenever resources, nodes or properties do",
        default=0,
        check=f"platform_version BETWEEN 0 AND {MANY}",
    ),
    column("created_at", INSTANT, "when the schema was created", default=NOW),
    column(
        "usage_version",
        BigInteger,
        "changes whenever anybody but the module that counts changes past consumption",
        default=0,
        check=f"usage_version BETWEEN 0 AND {MANY}",
    ),
    column(
        "accounting_since",
        INSTANT,
        "windows of the accounting that begin before are not compared with the jobs: their sums were deleted",
        optional=True,
    ),
    column(
        "changes_from", TransactionNumber, "of transactions before this one, changes may be gone", default=text("'0'")
    ),
    column(
        "projects_version",
        BigInteger,
        "changes whenever projects do: sessions that change them wait for each other here",
        default=0,
        check=f"projects_version BETWEEN 0 AND {MANY}",
    ),
    column(
        "gpu_hours_since",
        INSTANT,
        "sums of GPUs and consumables in windows that begin before are not compared with the jobs: "
        "these were not counted for all jobs",
        optional=True,
    ),
)

generations = table(
    "generations",
    "the lives of this database: the first, and one more for each time that it was found to be restored",
    column("generation", Integer, "number of it, from 0", key=True),
    column("copy", Text, "what tells this copy of the database from others: server, timeline, table"),
    column("found_at", INSTANT, "when it was found", default=NOW),
    column(
        "last_job", BigInteger, "highest job id that the database knew then; these jobs start at attempt 100 or more"
    ),
    column("next_job", BigInteger, "later job ids are higher: those in between may have been given and are lost"),
    column(
        "lost_from",
        INSTANT,
        "when the database was last written before, if known: what came later is lost",
        optional=True,
    ),
    column("reason", Text, "how it was found"),
)

nodes = table(
    "nodes",
    "how each node is reached, and what is known of the channel to it",
    column(
        "network_address",
        Text,
        "name of the node, as resources spell it",
        key=True,
        check="network_address ~ '^[A-Za-z0-9_.:-]{1,253}$'",
    ),
    column("transport", Text, "local, or ssh", default="ssh", check="transport IN ('local', 'ssh')"),
    column("host", Text, "address to connect to, NULL for the name itself", optional=True),
    column(
        "port",
        Integer,
        "port to connect to, NULL for the configured one",
        optional=True,
        check="port BETWEEN 1 AND 65535",
    ),
    column(
        "channel",
        Text,
        "unknown, connected or lost",
        default="unknown",
        check="channel IN ('unknown', 'connected', 'lost')",
    ),
    column("channel_since", INSTANT, "since when", default=NOW),
    column("channel_message", Text, "why it is lost", default=""),
    column("boot_id", Text, "changes when the node restarts", default=""),
    column("away_reason", Text, "why it is drained or down, until it is back; empty: nobody said", optional=True),
    column("away_by", Text, "who drained it or took it down, or said why", optional=True),
    column("away_since", INSTANT, "since when, or when that was said; NULL: it is there", optional=True),
    column("load_average", Double, "its load over one minute, NULL before it told", optional=True),
    column("available_memory", Integer, "memory that a new program could have, in MiB", optional=True),
    column("uptime", Integer, "seconds since it was started", optional=True),
    column("load_at", INSTANT, "when that was written", optional=True),
    column("recalled", Integer, "the generation for which it has told what the database lost", default=0),
    column("gpus", Integer, "graphics processors that it told of, NULL before", optional=True),
    column("elastic", Boolean, "whether it is created when it is needed, and deleted when it is idle", default=False),
)

node_away_logs = table(
    "node_away_logs",
    "why nodes were drained or down; written by triggers",
    column("network_address", Text, "the node", ForeignKey(nodes.c.network_address, ondelete="CASCADE")),
    column("reason", Text, "why, empty when nobody said"),
    column("author", Text, "who drained it or took it down, or said why"),
    column("during", TSTZRANGE, "for how long that was so, open while it is", check="NOT isempty(during)"),
    ExcludeConstraint(
        ("network_address", "="), ("during", "&&"), name="node_away_logs_network_address_during_excl", using="gist"
    ),
)

maintenance_windows = table(
    "maintenance_windows",
    "times in which nodes get no jobs, known in advance",
    column("window_id", Integer, "number of the window", Identity(always=True), key=True),
    column(
        "during",
        TSTZRANGE,
        "from when to when",
        check="(NOT isempty(during)) AND (NOT upper_inf(during))",
    ),
    column("reason", Text, "why", default=""),
    column("author", Text, "who planned it", default=ME),
    column("planned_at", INSTANT, "when", default=NOW),
    column("cancelled_by", Text, "who cancelled it", optional=True),
    column("cancelled_at", INSTANT, "when it was cancelled; NULL: it holds", optional=True),
    rule("cancelled_whole", "(cancelled_by IS NULL) = (cancelled_at IS NULL)"),
    Index(
        "maintenance_windows_valid", "during", postgresql_using="gist", postgresql_where=text("cancelled_at IS NULL")
    ),
)

maintenance_nodes = table(
    "maintenance_nodes",
    "the nodes of maintenance windows",
    column(
        "window_id",
        Integer,
        "the window",
        ForeignKey(maintenance_windows.c.window_id, ondelete="CASCADE"),
        key=True,
    ),
    column("network_address", Text, "the node", ForeignKey(nodes.c.network_address, ondelete="CASCADE"), key=True),
    Index("maintenance_nodes_node", "network_address"),
)

node_power = table(
    "node_power",
    "nodes that sleep to save energy, or are being woken",
    column("network_address", Text, "the node", ForeignKey(nodes.c.network_address, ondelete="CASCADE"), key=True),
    column("asked", Text, "what it is to do: sleep or wake", check="asked IN ('sleep', 'wake')"),
    column("asked_at", INSTANT, "when that was decided", default=NOW),
    column("sent_at", INSTANT, "when the command for it was run and did not fail; NULL: not yet", optional=True),
    column("tries", Integer, "how often that command has failed since", default=0, check="tries BETWEEN 0 AND 1000000"),
    column("retry_at", INSTANT, "when it is tried again; NULL: it has not failed", optional=True),
    column("failure", Text, "why it failed last", default=""),
    column("failed_since", INSTANT, "when it failed first; NULL: it has not failed", optional=True),
)

resource_states = table(
    "resource_states",
    "the states of a resource",
    column("state", Text, "Alive, Absent, Suspected or Dead", key=True),
)

resource_properties = table(
    "resource_properties",
    "the columns of resources that requests and filters may name",
    column("name", Text, "name of the column", key=True, check="name ~ '^[a-z_][a-z0-9_]{0,62}$'"),
    column("kind", Text, "its type", check="kind IN ('integer', 'text', 'boolean', 'timestamptz')"),
    column("protected", Boolean, "whether it is part of oarpy and stays", default=False),
)

resources = table(
    "resources",
    "the smallest things that are allocated, one row each; oarproperty adds columns",
    column("resource_id", Integer, "number of the resource", Identity(), key=True),
    column(
        "type",
        Text,
        "default for what computes; others are given only when a request names their type",
        default="default",
        check="type ~ '^[A-Za-z0-9_.-]{1,63}$'",
    ),
    column("network_address", Text, "its node", ForeignKey(nodes.c.network_address), optional=True),
    column("state", Text, "Alive, Absent, Suspected or Dead", ForeignKey(resource_states.c.state), default="Alive"),
    column(
        "state_by",
        Text,
        "who put it there: admin; monitor, which undoes its own decisions only; launcher, for a fault that an admin has"
        " to see to; node, for a fault that is over when the node says so",
        default="admin",
        check="state_by IN ('admin', 'monitor', 'launcher', 'node')",
    ),
    column("state_since", INSTANT, "since when", default=NOW),
    column("drain", Boolean, "whether running jobs may end but none start", default=False),
    column("besteffort", Boolean, "whether best-effort jobs may use it", default=True),
    column("deploy", Boolean, "whether deploy jobs may use it", default=False),
    column("available_upto", INSTANT, "until when jobs may use it, or it can be woken up", optional=True),
    column("cpuset", Integer, "its number inside the node", optional=True, check="cpuset >= 0"),
    column("host", Text, "its host", optional=True),
    column("cpu", Integer, "its processor", optional=True),
    column("core", Integer, "its core", optional=True),
    rule("resources_check", "(type <> 'default') OR (network_address IS NOT NULL)"),
    Index("resources_network_address", "network_address"),
)

NO_PROPERTIES = frozenset({"state_by", "state_since"})
"""Columns of ``resources`` that requests and filters may not name."""
REMOVABLE_PROPERTIES = frozenset({"host", "cpu"})
"""Columns of ``resources`` that an admin may take away."""

resource_state_logs = table(
    "resource_state_logs",
    "every state of every resource; written by triggers",
    column("resource_id", Integer, "the resource", ForeignKey(resources.c.resource_id, ondelete="CASCADE")),
    column("state", Text, "the state", ForeignKey(resource_states.c.state)),
    column("state_by", Text, "who put it there"),
    column("during", TSTZRANGE, "when it was in it, open while it is", check="NOT isempty(during)"),
    ExcludeConstraint(
        ("resource_id", "="), ("during", "&&"), name="resource_state_logs_resource_id_during_excl", using="gist"
    ),
)

consumables = table(
    "consumables",
    "what is divided among jobs instead of counted: memory of hosts and the like",
    column(
        "name",
        Text,
        "its name in requests",
        key=True,
        check="(name ~ '^[a-z_][a-z0-9_]{0,62}$') AND (name NOT IN ('nodes', 'walltime'))",
    ),
    column(
        "level",
        Text,
        "the property whose values have amounts of it; what shares a value is a block",
        ForeignKey(resource_properties.c.name, onupdate="CASCADE"),
    ),
    column("unit", Text, "bytes or count: what amounts are", default="count", check="unit IN ('bytes', 'count')"),
)

# The sum of the held amounts is kept here, so that a check on one row bounds it at every isolation level. Two sessions
# that take from one block wait for its row.
consumable_capacities = table(
    "consumable_capacities",
    "how much of a consumable each block has, and how much of that is held",
    column("consumable", Text, "the consumable", ForeignKey(consumables.c.name, ondelete="CASCADE"), key=True),
    column("block", Text, "value of the consumable's level, as text", key=True, check="block <> ''"),
    column(
        "capacity",
        BigInteger,
        "how much there is; a block without a row has none",
        check="capacity BETWEEN 1 AND 9007199254740992",
    ),
    column("held", BigInteger, "how much of it jobs hold now; kept by triggers", default=0, check="held >= 0"),
    rule("enough_left", "held <= capacity"),
)
