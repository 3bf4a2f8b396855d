"""What admins of a broker do: ``oargridctl``.

- ``cluster_settings``: the clusters that it uses. ``pass_list``: reallocation passes. ``doubt_list``: transactions
  of which is not known how they ended on a cluster.
"""

from __future__ import annotations
