"""Who comes first: orders of queues, the priorities behind them, and the quotas that bound users.

- ``queue_orders``: the orders by name. ``priorities`` and ``usage_shares``: karma and factors, and what they look at.
- ``ranking``: queues planned together, and the order of their jobs, for passes and for whoever asks about them.
- ``quotas``: what the jobs that a key matches may hold at one time.

An *order* sorts the jobs of a queue; "policy" is kept for how a queue is planned. May import ``oarpy.model`` and the
snapshot.
"""

from __future__ import annotations
