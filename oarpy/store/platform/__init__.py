"""The platform in SQL: what jobs run on, and what an admin rules about it.

- ``nodes`` and ``power``: channels to nodes, faults, lost and sleeping nodes. ``site``: this installation's id.
- ``resources``, ``properties`` and ``consumables``: what jobs hold, and by which columns it is found.
- ``queues`` and ``admission_rules``: who is served first, and what a submission passes.

A *node* is a machine, a *resource* the smallest thing a job can hold, a *block* all resources with one value of a
property. May import the rest of ``oarpy.store`` but ``schema``, and what that may import.
"""

from __future__ import annotations
