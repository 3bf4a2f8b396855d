"""The processes of a running cluster. Each one is a ``run_once`` and a loop; they talk only through the database."""

from __future__ import annotations
