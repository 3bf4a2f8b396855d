"""The work of admins of a broker: ``oargridctl``.

- ``cluster_settings``: the clusters that it uses. ``pass_list``: reallocation passes. ``doubt_list``: transactions
  whose outcome a cluster has not confirmed.
"""

from __future__ import annotations
