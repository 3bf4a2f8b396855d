"""Admission rules: compiled one by one, run over a submission, proved by cases.

- ``rules``: rules, traces and refusals as values. ``process``: the process of the rules, apart from the one that
  submits.
- ``confinement``: the limits of that process. ``execution``: runs the rules there, one by one. ``time_limit``
  interrupts a rule that takes too long.
- ``rule_api``: the names that a rule works with. ``site``: its questions to the cluster. ``queries``: its SQL queries.
- ``default_rules``: the rules that come with the software. ``cases``: examples that prove a rule. ``comparison``: the
  effects of a change of the rules.

May import ``filters`` and ``oarpy.model``.
"""

from __future__ import annotations
