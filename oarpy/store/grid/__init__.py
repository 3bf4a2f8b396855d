"""What a broker keeps of its jobs and clusters, and what a cluster keeps of its brokers.

- The door's: ``cluster_facts``, ``door_calls``, ``door_sessions``, ``grants``.
"""

from __future__ import annotations
