"""Several clusters: where jobs go, when the parts of one job start together, and what moves while it waits.

- ``core``: the decisions of the broker, pure. ``simulation``: the same decisions in virtual time, on clusters in files.
"""

from __future__ import annotations
