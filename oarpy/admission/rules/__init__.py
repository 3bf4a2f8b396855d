"""Admission rules: compiled one by one, run over a submission, proved by cases.

- ``rules``: rules, traces and refusals as values. ``process``: where rules run, kept apart from who submits.
- ``confinement``: what keeps that process apart. ``execution``: runs them there, one by one; ``time_limit`` interrupts
  one that takes too long.
- ``rule_api``: the names a rule works with. ``site``: what it may ask; ``queries``: what it may read with SQL.
- ``default_rules``: those that come with the software. ``cases``: examples that prove a rule. ``comparison``: what a
  change of the rules would change.

May import ``filters`` and ``oarpy.model``.
"""

from __future__ import annotations
