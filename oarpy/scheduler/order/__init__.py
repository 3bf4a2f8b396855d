"""Who comes first: orders of queues, the priorities behind them, and the quotas that bound users.

An *order* sorts the jobs of a queue; "policy" is kept for how a queue is planned. May import ``oarpy.model`` and the
snapshot; ``queue_position`` also compiled requests.
"""

from __future__ import annotations
