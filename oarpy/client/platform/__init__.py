"""What admins and users do with the platform: nodes, resources, properties, queues, quotas, consumables."""

from __future__ import annotations
