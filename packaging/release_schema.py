"""Make the newest revision the baseline: ``make release-schema``, on the day of a release.

New databases are made from the description anyhow, and older ones are brought to it. So of a revision remains what it
did to rows, the function ``rows``, in a module of ``migrations/older``; its number joins those that the baseline
replaces. Tests compare what becomes of the dumps of older clusters with a new database.
"""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSIONS, OLDER = ROOT / "migrations" / "versions", ROOT / "migrations" / "older"
KEPT = "rows"


def main() -> None:
    """Move the baseline, if a revision comes after it."""
    baseline, *later = sorted(VERSIONS.glob("[0-9]*.py"))
    if not later:
        print(f"{baseline.relative_to(ROOT)} is the newest revision")
        return
    for path in later:
        if remains := only_rows(path.read_text(encoding="utf-8")):
            (OLDER / path.name).write_text(remains, encoding="utf-8")
            print(f"{path.relative_to(ROOT)}: what it does to rows is in migrations/older")
        path.unlink()
    numbers = [path.name[:4] for path in (baseline, *later)]
    target = baseline.with_name(f"{numbers[-1]}_baseline.py")
    target.write_text(renumbered(baseline.read_text(encoding="utf-8"), numbers), encoding="utf-8")
    baseline.unlink()
    print(f"{target.relative_to(ROOT)} replaces {', '.join(numbers[:-1])}")


def renumbered(text: str, numbers: list[str]) -> str:
    """Return the baseline with the last of the numbers, as what replaces the others."""
    before, begin, rest = text.replace(numbers[0], numbers[-1]).partition("replaces = (\n")
    listed, end, after = rest.partition("\n)\n")
    added = ", ".join(f'"{number}"' for number in numbers[:-1])
    return f"{before}{begin}{listed}\n    *({added},),{end}{after}"


def only_rows(text: str) -> str:
    """Return a revision without all that ``rows`` does not need; empty when it has no such function."""
    tree = ast.parse(text)
    defined = {name: node for node in tree.body for name in bound(node)}
    needed: set[str] = set()
    new = {KEPT} & defined.keys()
    while new:
        needed |= new
        new = {name for one in new for name in used(defined[one])} & defined.keys() - needed
    if not needed:
        return ""
    meaning = (ast.get_docstring(tree) or "").partition("\n\nRevision ID")[0]
    parts = [f'"""{meaning}"""', "from __future__ import annotations"]
    parts += [ast.get_source_segment(text, node) or "" for node in tree.body if needed & bound(node)]
    return "\n\n".join(parts) + "\n"


def bound(node: ast.stmt) -> set[str]:
    """Return the names that a statement of a module gives to something."""
    match node:
        case ast.FunctionDef():
            return {node.name}
        case ast.Import() | ast.ImportFrom():
            return {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        case ast.Assign() | ast.AnnAssign():
            return {
                name.id for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
            }
    return set()


def used(node: ast.stmt) -> set[str]:
    """Return the names in a statement."""
    return {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}


if __name__ == "__main__":
    main()
