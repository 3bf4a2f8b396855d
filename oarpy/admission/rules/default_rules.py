"""The rules that come with the software: files ``NN_name.py`` of the package ``oarpy.admission_rules``.

``NN`` is the priority and ``name`` the rule's name. The first line describes the rule. A comment line ``# enabled: no``
at the top makes an example that does not run until an administrator enables it.
"""

from __future__ import annotations

import functools
import re
from importlib import resources

from oarpy.admission.rules.rules import Rule

_PACKAGE = "oarpy.admission_rules"
_FILE = re.compile(r"(\d+)_(\w+)\.py")
_FOR_TYPE_CHECKERS = "# mypy: "


@functools.cache
def default_rules() -> tuple[Rule, ...]:
    """Return the default rules in the order they run."""
    rules = [
        read_rule(parts[2], int(parts[1]), entry.read_text(encoding="utf-8"))
        for entry in resources.files(_PACKAGE).iterdir()
        if (parts := _FILE.fullmatch(entry.name))
    ]
    return tuple(sorted(rules, key=lambda rule: (rule.priority, rule.name)))


def default_cases(rule: Rule) -> str:
    """Return the text of the cases (TOML) kept beside a default rule."""
    name = f"{rule.priority:02}_{rule.name}.cases.toml"
    return (resources.files(_PACKAGE) / name).read_text(encoding="utf-8")


def read_rule(name: str, priority: int, source: str) -> Rule:
    """Make a rule of the contents of a rule file, leaving out the lines meant for type checkers."""
    lines = [line for line in source.splitlines() if not line.startswith(_FOR_TYPE_CHECKERS)]
    enabled = not any(re.fullmatch(r"#\s*enabled:\s*no\s*", line) for line in lines[:5])
    return Rule(name=name, text="\n".join(lines) + "\n", priority=priority, enabled=enabled)
