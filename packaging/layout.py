"""The layout as rules: ``python packaging/layout.py`` lists what breaks them, with ``--tree`` prints the folders.

Imports have no circle, wherever they stand: neither between modules nor between the folders of a folder. The
``__init__`` of every package says in at most 20 lines what it is for. ``--figures`` prints the sizes of the code and
the counts that tell what a change costs: of this checkout, or of the one in the folder that follows.
"""

from __future__ import annotations

import ast
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import takewhile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("oarpy", "commands", "migrations", "admission_rules", "research", "examples")
INTRODUCTION_LINES = 20

SMALL_MODULE_LINES = 80
JOB_ATTRIBUTES = (
    {"user", "user_name"},
    {"queue", "queue_name"},
    {"project"},
    {"types"},
    {"requests", "alternatives"},
    {"walltime"},
    {"command"},
    {"properties"},
    {"depends_on", "dependencies"},
    {"reservation"},
)
JOB_SHAPE = 4
"""How many of these attributes a record has, at least, that is a shape of a job."""
ENTRY_POINTS = {"oarpy/modules/launcher": ("launcher.py", "run_once"), "oarpy/scheduler": ("decide.py", "decide")}
"""What a round of the launcher and a pass of the scheduler begin with, each in its room."""
CALLS_DEEP = 2
UPWARD = {
    ("oarpy.client.jobs", "oarpy.client.events"),
    ("oarpy.client.jobs", "oarpy.client.platform"),
    ("oarpy.client.platform", "oarpy.client.past"),
    ("oarpy.grid.reports", "oarpy.grid.submission"),
    ("oarpy.scheduler.explain", "oarpy.scheduler.passes"),
    ("oarpy.simulation.reports", "oarpy.simulation.workloads"),
    ("oarpy.simulation.traces", "oarpy.simulation.engines"),
    ("oarpy.store.jobs", "oarpy.store.passes"),
    ("oarpy.store.jobs", "oarpy.store.platform"),
    ("oarpy.store.past", "oarpy.store.jobs"),
    ("oarpy.store.past", "oarpy.store.passes"),
    ("oarpy.store.past", "oarpy.store.schema"),
    ("oarpy.transport.agent.job", "oarpy.transport.agent.steps"),
}
"""Folders that import what imports them: without these, folders have no circle. The list is to shrink."""


def files(root: Path = ROOT) -> list[Path]:
    """Return the files of the project's packages that git knows or would take, relative to the root."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *FOLDERS],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    return sorted(path for line in listed.stdout.splitlines() if (root / (path := Path(line))).exists())


def sources() -> dict[Path, ast.Module]:
    """Return the modules among them, parsed."""
    return {path: ast.parse((ROOT / path).read_text(encoding="utf-8")) for path in files() if path.suffix == ".py"}


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


def imported(tree: ast.AST, modules: Container[str]) -> Iterator[str]:
    """Yield the modules of ours that a module imports, in its functions too; what types alone need is left out."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                if full in modules or node.module in modules:
                    yield full if full in modules else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield from imported(node, modules)


def all_imports(trees: Mapping[Path, ast.Module]) -> dict[str, set[str]]:
    """Return what each module imports."""
    modules = {module_name(path): tree for path, tree in trees.items()}
    return {name: set(imported(tree, modules)) - {name} for name, tree in modules.items()}


def room_imports(imports: Mapping[str, set[str]], rooms: Container[str]) -> dict[str, set[str]]:
    """Return which folders of a folder import which others of it, that folder's own name before theirs."""
    found: dict[str, set[str]] = defaultdict(set)
    for module, targets in imports.items():
        for target in targets:
            pairs = zip(module.split("."), target.split("."), strict=False)
            shared = len([*takewhile(lambda pair: pair[0] == pair[1], pairs)])
            room, other = (".".join(name.split(".")[: shared + 1]) for name in (module, target))
            if room in rooms and other in rooms:
                found[room].add(other)
    return found


def circles(trees: Mapping[Path, ast.Module]) -> Iterator[str]:
    """Yield a circle between modules and one between folders, if there are any, and exceptions that are none."""
    imports = all_imports(trees)
    rooms = room_imports(imports, {module_name(path) for path in trees if path.name == "__init__.py"})
    for room, other in sorted(UPWARD):
        if other not in rooms.get(room, ()):
            yield f"{room} imports nothing of {other} any more: take it off UPWARD"
    straight = {room: {other for other in others if (room, other) not in UPWARD} for room, others in rooms.items()}
    for graph in (imports, straight):
        try:
            TopologicalSorter(graph).prepare()
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


def figures(root: Path) -> Iterator[str]:
    """Yield the sizes of the checkout in ``root``, and counts that tell what a change of it costs."""
    paths = [path for path in files(root) if path.suffix == ".py"]
    trees = {path: ast.parse((root / path).read_text(encoding="utf-8")) for path in paths}
    lines = {path: len((root / path).read_text(encoding="utf-8").splitlines()) for path in paths}
    records = [
        node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and is_record(node)
    ]
    shapes = [node.name for node in records if is_job(node)]
    yield f"modules                                {len(paths)}"
    yield f"lines                                  {sum(lines.values())}"
    yield f"records (dataclasses and structs)      {len(records)}"
    yield f"shapes of a job                        {len(shapes)} ({', '.join(sorted(shapes))})"
    small = [path for path, count in importers(trees).items() if count == 1 and lines[path] < SMALL_MODULE_LINES]
    yield f"one-importer modules under {SMALL_MODULE_LINES} lines    {len(small)}"
    for room, (module, name) in ENTRY_POINTS.items():
        inside = {path: tree for path, tree in trees.items() if path.is_relative_to(room)}
        found = returns(inside, Path(room) / module, name)
        yield f"{f'returns of {name}, {CALLS_DEEP} calls deep':38} {found}"
    yield "hops of a job id                       python -m tests.campaigns.job_hops"


def is_record(node: ast.ClassDef) -> bool:
    """Tell whether a class is a dataclass or a struct of msgspec."""
    described = [ast.unparse(part) for part in (*node.decorator_list, *node.bases)]
    return any(word in text for text in described for word in ("dataclass", "Struct"))


def is_job(node: ast.ClassDef) -> bool:
    """Tell whether a record has enough attributes of a job to be a shape of it."""
    names = {one.target.id for one in node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)}
    return sum(bool(words & names) for words in JOB_ATTRIBUTES) >= JOB_SHAPE


def importers(trees: Mapping[Path, ast.Module]) -> dict[Path, int]:
    """Return how many modules import each, wherever in them they do."""
    paths = {module_name(path): path for path in trees if path.name != "__init__.py"}
    found = dict.fromkeys(paths.values(), 0)
    for tree in trees.values():
        named: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                named |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                named |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        for name in named & paths.keys():
            found[paths[name]] += 1
    return found


def returns(trees: Mapping[Path, ast.Module], module: Path, name: str) -> int:
    """Return how many ``return`` statements a function has, with those of its room that it calls by their name."""
    functions: dict[str, list[ast.FunctionDef]] = defaultdict(list)
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                functions[node.name].append(node)
    level = [node for node in ast.walk(trees[module]) if isinstance(node, ast.FunctionDef) and node.name == name]
    seen = set(level)
    for _ in range(CALLS_DEEP):
        level = [node for one in level for called in calls(one) for node in functions[called] if node not in seen]
        seen |= set(level)
    return sum(isinstance(part, ast.Return) for node in seen for part in ast.walk(node))


def calls(function: ast.FunctionDef) -> set[str]:
    """Return the names, without what they are attributes of, of all that a function calls."""
    called = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    names = {node.id for node in called if isinstance(node, ast.Name)}
    return names | {node.attr for node in called if isinstance(node, ast.Attribute)}


def main(arguments: list[str]) -> int:
    """Print what breaks the rules, or the tree, or the figures."""
    if arguments[:1] == ["--figures"]:
        sys.stdout.writelines(f"{line}\n" for line in figures(Path(*arguments[1:2]) if arguments[1:] else ROOT))
        return 0
    paths = files()
    if "--tree" in arguments:
        sys.stdout.writelines(f"{line}\n" for line in drawing(paths))
        return 0
    trees = sources()
    found = [*circles(trees), *introductions(trees)]
    sys.stdout.writelines(f"{line}\n" for line in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
