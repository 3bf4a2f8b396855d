"""The default admission rules, one file each, with the cases that prove each beside it.

A file ``NN_name.py`` is a text, not a module. Its first line says what it does, ``NN`` is its priority. The names it
works with are those of :mod:`oarpy.admission.rules.rule_api`. ``NN_name.cases.toml`` holds its cases. Nothing is
imported here, and a rule cannot import anything.
"""

from __future__ import annotations
