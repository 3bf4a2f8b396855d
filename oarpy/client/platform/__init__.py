"""What admins do with the platform, and what users see of it: from nodes and resources to queues and quotas.

- ``resource_creation`` makes resources from a ``resource_pattern``; ``node_settings`` changes them.
- ``maintenance`` plans, lists and cancels maintenance windows of nodes.
- ``resource_selection`` and ``property_values`` read what is typed; ``resource_text`` and ``nodes`` show resources.
- ``quotas`` stores what ``quota_file`` reads; ``properties``, ``queues`` and ``consumables`` have a command each,
  and ``projects`` too.

May import the rest of ``oarpy.client`` and what that may import.
"""

from __future__ import annotations
