"""Tables of the installation and its platform: rules, queues, nodes, resources. For Alembic and tests."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Identity,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import TIMESTAMP, TSTZRANGE, UUID, ExcludeConstraint

# PostgreSQL's own names for what has none
METADATA = MetaData(naming_convention={"pk": "%(table_name)s_pkey", "fk": "%(table_name)s_%(column_0_N_name)s_fkey"})

site = Table(
    "site",
    METADATA,
    Column("only_row", Boolean, primary_key=True, server_default=text("true")),
    Column("instance", UUID, nullable=False, server_default=text("gen_random_uuid()")),
    Column("platform_version", BigInteger, nullable=False, server_default=text("0")),
    Column("created_at", TIMESTAMP(timezone=True), nullable=False, server_default=text("now()")),
    CheckConstraint("only_row", name="site_only_row_check"),
)

queues = Table(
    "queues",
    METADATA,
    Column("queue_name", Text, primary_key=True),
    Column("priority", Integer, nullable=False),
    Column("policy", Text, nullable=False, server_default="fifo"),
    Column("active", Boolean, nullable=False, server_default=text("true")),
    Column("message", Text, nullable=False, server_default=""),
    CheckConstraint("policy <> ''", name="queues_policy_check"),
    CheckConstraint("priority BETWEEN 0 AND 1000000", name="queues_priority_check"),
    CheckConstraint("queue_name ~ '^[A-Za-z][A-Za-z0-9_.-]{0,62}$'", name="queues_queue_name_check"),
)

admission_rules = Table(
    "admission_rules",
    METADATA,
    Column("rule_id", Integer, Identity(always=True), primary_key=True),
    Column("name", Text, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("enabled", Boolean, nullable=False, server_default=text("true")),
    Column("rule_text", Text, nullable=False),
    Column("version", Integer, nullable=False, server_default=text("1")),
    CheckConstraint("name ~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$'", name="admission_rules_name_check"),
    CheckConstraint("priority BETWEEN 0 AND 1000000", name="admission_rules_priority_check"),
    CheckConstraint("version > 0", name="admission_rules_version_check"),
    UniqueConstraint("name", name="admission_rules_name_key"),
)

admission_rule_versions = Table(
    "admission_rule_versions",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("priority", Integer, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("rule_text", Text, nullable=False),
    Column("deleted", Boolean, nullable=False, server_default=text("false")),
    Column("changed_at", TIMESTAMP(timezone=True), nullable=False, server_default=text("now()")),
    Column("changed_by", Text, nullable=False, server_default=text("SESSION_USER")),
)

nodes = Table(
    "nodes",
    METADATA,
    Column("network_address", Text, primary_key=True),
    Column("transport", Text, nullable=False, server_default="ssh"),
    Column("host", Text),
    Column("port", Integer),
    Column("channel", Text, nullable=False, server_default="unknown"),
    Column("channel_since", TIMESTAMP(timezone=True), nullable=False, server_default=text("now()")),
    Column("channel_message", Text, nullable=False, server_default=""),
    Column("boot_id", Text, nullable=False, server_default=""),
    CheckConstraint("channel IN ('unknown', 'connected', 'lost')", name="nodes_channel_check"),
    CheckConstraint("network_address ~ '^[A-Za-z0-9_.:-]{1,253}$'", name="nodes_network_address_check"),
    CheckConstraint("port BETWEEN 1 AND 65535", name="nodes_port_check"),
    CheckConstraint("transport IN ('local', 'ssh')", name="nodes_transport_check"),
)

node_power = Table(
    "node_power",
    METADATA,
    Column("network_address", Text, ForeignKey("nodes.network_address", ondelete="CASCADE"), primary_key=True),
    Column("asked", Text, nullable=False),
    Column("asked_at", TIMESTAMP(timezone=True), nullable=False, server_default=text("now()")),
    Column("sent_at", TIMESTAMP(timezone=True)),
    CheckConstraint("asked IN ('sleep', 'wake')", name="node_power_asked_check"),
)

resource_states = Table(
    "resource_states",
    METADATA,
    Column("state", Text, primary_key=True),
)

resource_properties = Table(
    "resource_properties",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("protected", Boolean, nullable=False, server_default=text("false")),
    CheckConstraint("kind IN ('integer', 'text', 'boolean', 'timestamptz')", name="resource_properties_kind_check"),
    CheckConstraint("name ~ '^[a-z_][a-z0-9_]{0,62}$'", name="resource_properties_name_check"),
)

resources = Table(
    "resources",
    METADATA,
    Column("resource_id", Integer, Identity(), primary_key=True),
    Column("type", Text, nullable=False, server_default="default"),
    Column("network_address", Text, ForeignKey("nodes.network_address")),
    Column("state", Text, ForeignKey("resource_states.state"), nullable=False, server_default="Alive"),
    Column("state_by", Text, nullable=False, server_default="admin"),
    Column("state_since", TIMESTAMP(timezone=True), nullable=False, server_default=text("now()")),
    Column("drain", Boolean, nullable=False, server_default=text("false")),
    Column("besteffort", Boolean, nullable=False, server_default=text("true")),
    Column("deploy", Boolean, nullable=False, server_default=text("false")),
    Column("available_upto", TIMESTAMP(timezone=True)),
    Column("cpuset", Integer),
    Column("host", Text),
    Column("cpu", Integer),
    Column("core", Integer),
    CheckConstraint("isfinite(available_upto)", name="resources_available_upto_check"),
    CheckConstraint("(type <> 'default') OR (network_address IS NOT NULL)", name="resources_check"),
    CheckConstraint("state_by IN ('admin', 'monitor', 'launcher', 'node')", name="resources_state_by_check"),
    CheckConstraint("type ~ '^[A-Za-z0-9_.-]{1,63}$'", name="resources_type_check"),
    Index("resources_network_address", "network_address"),
)

resource_state_logs = Table(
    "resource_state_logs",
    METADATA,
    Column("resource_id", Integer, ForeignKey("resources.resource_id", ondelete="CASCADE"), nullable=False),
    Column("state", Text, ForeignKey("resource_states.state"), nullable=False),
    Column("state_by", Text, nullable=False),
    Column("during", TSTZRANGE, nullable=False),
    CheckConstraint("NOT isempty(during)", name="resource_state_logs_during_check"),
    ExcludeConstraint(
        ("resource_id", "="), ("during", "&&"), name="resource_state_logs_resource_id_during_excl", using="gist"
    ),
)

module_runs = Table(
    "module_runs",
    METADATA,
    Column("module", Text, primary_key=True),
    Column("at", TIMESTAMP(timezone=True), nullable=False, server_default=text("now()")),
    Column("outcome", Text, nullable=False, server_default=""),
    Column("pid", Integer, nullable=False),
    Column("host", Text, nullable=False),
)
