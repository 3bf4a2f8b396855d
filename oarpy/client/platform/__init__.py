"""The work of admins on the platform, and the views of users: from nodes and resources to queues and quotas.

- ``resource_creation`` makes resources from a pattern; ``node_settings`` changes them.
- ``maintenance`` plans, lists and cancels maintenance windows of nodes.
- ``resource_selection`` and ``property_values`` read typed words; ``resource_text`` and ``nodes`` show resources.
- ``quotas`` stores quotas that ``quota_file`` reads; ``properties``, ``queues``, ``consumables`` and ``projects``
  have a command each.

May import the rest of ``oarpy.client`` and all that it may import.
"""

from __future__ import annotations
