"""The cap on the length of functions: ``python packaging/lengths.py`` lists what is over it.

Blank lines and comments count: what is too long to read is too long however it is filled. A function's signature does
not: a command declares its options there.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("oarpy", "commands", "migrations", "admission_rules", "packaging", "docs", "research", "examples", "tests")
FUNCTION_LINES = 60


def too_long(path: Path) -> Iterator[str]:
    """Yield one line for each function of a module that is over the cap."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            length = node.end_lineno - node.body[0].lineno + 1
            if length > FUNCTION_LINES:
                yield f"{path}:{node.lineno}: {node.name} has a body of {length} lines, at most {FUNCTION_LINES}"


def main() -> int:
    """Check every Python file of the project."""
    files = [path for name in FOLDERS for path in sorted((ROOT / name).rglob("*.py"))]
    found = [line for path in files for line in too_long(path)]
    sys.stdout.writelines(line.removeprefix(f"{ROOT}/") + "\n" for line in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
