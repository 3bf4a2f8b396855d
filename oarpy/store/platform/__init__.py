"""The platform in SQL: nodes, resources, properties, consumables, queues, admission rules, sleeping nodes."""

from __future__ import annotations
