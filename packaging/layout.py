"""The layout as rules: ``python packaging/layout.py`` lists what breaks them, with ``--tree`` prints the folders.

Imports at the head of modules have no circle. The ``__init__`` of every package says in at
most 20 lines what it is for.
"""

from __future__ import annotations

import ast
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("oarpy", "commands", "migrations", "admission_rules", "benchmarks", "examples")
INTRODUCTION_LINES = 20


def files() -> list[Path]:
    """Return the files of the project's packages that git knows or would take, relative to the root."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *FOLDERS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return sorted(path for line in listed.stdout.splitlines() if (ROOT / (path := Path(line))).exists())


def entries(paths: list[Path]) -> dict[Path, set[str]]:
    """Return the names in each folder."""
    found: dict[Path, set[str]] = defaultdict(set)
    for path in paths:
        for part, folder in zip(path.parts[1:], reversed(path.parents[:-1]), strict=True):
            found[folder].add(part)
    return found


def module_name(path: Path) -> str:
    """Return the name under which a file is imported: ``commands/`` and the like are installed inside ``oarpy``."""
    parts = path.with_suffix("").parts
    parts = parts if parts[0] == "oarpy" else ("oarpy", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree: ast.Module, modules: Mapping[str, object]) -> Iterator[str]:
    """Yield the modules of ours that a module needs in order to be imported."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                if full in modules or node.module in modules:
                    yield full if full in modules else node.module


def circles(trees: Mapping[Path, ast.Module]) -> Iterator[str]:
    """Yield a circle of imports, if there is one."""
    modules = {module_name(path): tree for path, tree in trees.items()}
    try:
        TopologicalSorter({name: set(imported(tree, modules)) for name, tree in modules.items()}).prepare()
    except CycleError as error:
        yield f"imports in a circle: {' <- '.join(error.args[1])}"


def introductions(trees: Mapping[Path, ast.Module]) -> Iterator[str]:
    """Yield packages that do not say what lives there, or say too much."""
    for path, tree in trees.items():
        if path.name == "__init__.py" and path.parts[0] == "oarpy":
            lines = len((ast.get_docstring(tree) or "").splitlines())
            if not 1 <= lines <= INTRODUCTION_LINES:
                yield f"{path}: an introduction of {lines} lines, 1 to {INTRODUCTION_LINES} wanted"


def drawing(paths: list[Path]) -> Iterator[str]:
    """Yield the folders with their numbers of entries and what they are for, then the sizes of modules."""
    for folder, names in sorted(entries(paths).items()):
        start = ROOT / folder / "__init__.py"
        text = ast.get_docstring(ast.parse(start.read_text(encoding="utf-8"))) if start.exists() else None
        name = "    " * (len(folder.parts) - 1) + folder.name + "/"
        yield f"{name:32} {len(names):3}  {text.splitlines()[0] if text else ''}".rstrip()
    modules = [path for path in paths if path.suffix == ".py"]
    lengths = sorted(len((ROOT / path).read_text(encoding="utf-8").splitlines()) for path in modules)
    yield (
        f"{len(lengths)} modules; lines: median {statistics.median(lengths):.0f}, "
        f"90th percentile {lengths[int(0.9 * len(lengths))]}, maximum {lengths[-1]}"
    )


def main(arguments: list[str]) -> int:
    """Print what breaks the rules, or the tree."""
    paths = files()
    if "--tree" in arguments:
        sys.stdout.writelines(f"{line}\n" for line in drawing(paths))
        return 0
    trees = {path: ast.parse((ROOT / path).read_text(encoding="utf-8")) for path in paths if path.suffix == ".py"}
    found = [*circles(trees), *introductions(trees)]
    sys.stdout.writelines(f"{line}\n" for line in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
