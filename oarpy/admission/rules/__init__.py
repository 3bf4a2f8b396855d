"""Admission rules: compiled one by one, run over a submission, proved by cases.

- ``rules``: runs them and traces what each did. ``rule_api``: the names a rule works with. ``site``: what it may ask.
- ``time_limit``: interrupts a rule that runs too long.
- ``default_rules``: those that come with the software. ``cases``: examples that prove a rule. ``comparison``: what a
  change of the rules would change.

May import ``filters`` and ``oarpy.model``.
"""

from __future__ import annotations
