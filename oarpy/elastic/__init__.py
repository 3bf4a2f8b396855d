"""Elastic nodes: a slice, which describes nodes that the commands of ``[energy]`` create and delete.

The rows of such nodes are there all the time; a node that does not stand is one that sleeps. So passes plan on it, wake
it by the command that creates it, and send it to sleep by the command that deletes it.

- ``elastic_nodes``: the module that makes rows by the template of ``[elastic]``, and has lost nodes deleted.

SQL is in ``oarpy.store.platform.elastic``. May import ``oarpy.client`` and everything below it.
"""

from __future__ import annotations
