"""Tables of what is divided among jobs: memory of hosts and the like. For Alembic and tests."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, ForeignKey, Index, SmallInteger, Table, Text, text
from sqlalchemy.dialects.postgresql import TSTZRANGE

from oarpy.store.tables_platform import METADATA

consumables = Table(
    "consumables",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("level", Text, ForeignKey("resource_properties.name", onupdate="CASCADE"), nullable=False),
    Column("unit", Text, nullable=False, server_default="count"),
    CheckConstraint(
        "(name ~ '^[a-z_][a-z0-9_]{0,62}$') AND (name NOT IN ('nodes', 'walltime'))", name="consumables_name_check"
    ),
    CheckConstraint("unit IN ('bytes', 'count')", name="consumables_unit_check"),
)

consumable_capacities = Table(
    "consumable_capacities",
    METADATA,
    Column("consumable", Text, ForeignKey("consumables.name", ondelete="CASCADE"), primary_key=True),
    Column("block", Text, primary_key=True),
    Column("capacity", BigInteger, nullable=False),
    Column("held", BigInteger, nullable=False, server_default=text("0")),
    CheckConstraint("block <> ''", name="consumable_capacities_block_check"),
    CheckConstraint("capacity BETWEEN 1 AND 9007199254740992", name="consumable_capacities_capacity_check"),
    CheckConstraint("held >= 0", name="consumable_capacities_held_check"),
    CheckConstraint("held <= capacity", name="enough_left"),
)

consumption_descriptions = Table(
    "consumption_descriptions",
    METADATA,
    Column(
        "moldable_id",
        BigInteger,
        ForeignKey("moldable_descriptions.moldable_id", ondelete="CASCADE"),
        primary_key=True,
        autoincrement=False,
    ),
    Column("consumable", Text, primary_key=True),
    Column("position", SmallInteger, nullable=False),
    Column("amount", BigInteger, nullable=False),
    CheckConstraint("amount BETWEEN 1 AND 9007199254740992", name="consumption_descriptions_amount_check"),
    CheckConstraint("consumable ~ '^[A-Za-z_][A-Za-z0-9_]{0,62}$'", name="consumption_descriptions_consumable_check"),
    CheckConstraint("position >= 0", name="consumption_descriptions_position_check"),
)

assigned_amounts = Table(
    "assigned_amounts",
    METADATA,
    Column("job_id", BigInteger, ForeignKey("jobs.job_id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("consumable", Text, primary_key=True),
    Column("block", Text, primary_key=True),
    Column("amount", BigInteger, nullable=False),
    Column("during", TSTZRANGE, nullable=False),
    CheckConstraint("amount > 0", name="assigned_amounts_amount_check"),
    Index("assigned_amounts_held", "consumable", "block", postgresql_where=text("upper_inf(during)")),
)
