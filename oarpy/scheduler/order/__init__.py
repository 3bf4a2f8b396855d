"""The order of waiting jobs: orders of queues, the priorities behind them, and the quotas that limit users.

- ``queue_orders``: the orders by name. ``priorities`` and ``usage_shares``: karma and factors, and their inputs.
- ``ranking``: queues planned together, and the order of their jobs, for passes and for questions about a job.
- ``quotas``: limits on the resources that the jobs matching a key hold at one time.

An *order* sorts the jobs of a queue; "policy" means how a queue is planned. May import ``oarpy.model`` and the
snapshot.
"""

from __future__ import annotations
