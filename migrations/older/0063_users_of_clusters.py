"""Clusters of Slurm are closed until an admin says who may use them."""

from __future__ import annotations

from sqlalchemy import Connection


def rows(connection: Connection) -> None:
    """Close them."""
    connection.exec_driver_sql("UPDATE grid_clusters SET users = '{}' WHERE kind = 'slurm'")
