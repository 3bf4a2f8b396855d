"""The walls of the project: who may import whom, that nobody imports in a circle, and how long a function may be."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


def script(name: str) -> ModuleType:
    """Load a script of ``packaging/``."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "packaging" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The sources as they are installed."""
    target = tmp_path / "tree"
    script("source_tree").lay_out(target)
    return target


def lint_imports(tree: Path) -> subprocess.CompletedProcess[str]:
    """Check the import contracts of pyproject.toml on a tree."""
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--config"]
    return subprocess.run(
        [*command, str(ROOT / "pyproject.toml")], cwd=tree, capture_output=True, text=True, check=False
    )


@pytest.mark.long
def test_import_contracts_are_kept(tree: Path) -> None:
    """Lower layers know nothing of upper ones, the core is pure, the agent needs the standard library only."""
    done = lint_imports(tree)
    assert done.returncode == 0, done.stdout
    assert "0 broken" in done.stdout


@pytest.mark.long
@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("oarpy/model/upward.py", "import oarpy.store.database"),
        ("oarpy/scheduler/io.py", "import socket"),
        ("oarpy/store/upward.py", "import oarpy.commands.oarsub"),
        ("oarpy/transport/agent/heavy.py", "import numpy"),
    ],
)
def test_a_broken_contract_is_noticed(tree: Path, module: str, line: str) -> None:
    """The check sees modules of every part, the ones outside ``oarpy/`` in the checkout included."""
    (tree / module).write_text(f"{line}\n", encoding="utf-8")
    done = lint_imports(tree)
    assert done.returncode == 1
    assert "BROKEN" in done.stdout
    assert module.removesuffix(".py").replace("/", ".") in done.stdout


def test_every_top_package_has_a_layer(tree: Path) -> None:
    """A new package must be given its place in the order of layers."""
    layers = (ROOT / "pyproject.toml").read_text(encoding="utf-8").split("layers = [")[1].split("]")[0]
    packages = {path.parent.name for path in (tree / "oarpy").glob("*/__init__.py")}
    without_layer = {"admission_rules", "migrations"}  # data that only store and admission read, no code to import
    assert {name for name in packages - without_layer if f"oarpy.{name}" not in layers} == set()


@pytest.mark.long
def test_functions_are_short_enough() -> None:
    """Nothing is over the cap."""
    lengths = script("lengths")
    files = [path for name in lengths.FOLDERS for path in sorted((ROOT / name).rglob("*.py"))]
    assert len(files) > 100
    assert [line for path in files for line in lengths.too_long(path)] == []


def test_what_is_too_long_is_listed(tmp_path: Path) -> None:
    """One line over the cap is reported, the cap itself is not; a long signature is no fault."""
    lengths = script("lengths")
    path = tmp_path / "long.py"
    body = "".join(f"    x = {i}\n" for i in range(lengths.FUNCTION_LINES))
    path.write_text(f"def f(\n{'    # options' + chr(10)}) -> None:\n{body}", encoding="utf-8")
    assert list(lengths.too_long(path)) == []
    path.write_text(f"def f() -> None:\n{body}    y = 1\n", encoding="utf-8")
    assert [line.rpartition(": ")[2] for line in lengths.too_long(path)] == ["f has a body of 61 lines, at most 60"]


@pytest.fixture(scope="module")
def layout() -> ModuleType:
    """The script that looks at imports."""
    return script("layout")


@pytest.fixture(scope="module")
def trees(layout: ModuleType) -> dict[Path, ast.Module]:
    """All sources, parsed once."""
    parsed: dict[Path, ast.Module] = layout.sources()
    return parsed


@pytest.mark.long
def test_imports_have_no_circle(layout: ModuleType, trees: dict[Path, ast.Module]) -> None:
    """Neither modules nor the folders of a folder import each other, but for the folders that are listed."""
    assert [*layout.circles(trees)] == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("oarpy/model/durations.py", "from oarpy.model import request"),
        ("oarpy/scheduler/order/quotas.py", "from oarpy.scheduler.passes.backfilling import POLICIES"),
    ],
)
def test_a_circle_is_noticed(module: str, line: str, layout: ModuleType, trees: dict[Path, ast.Module]) -> None:
    """The check sees imports in functions, and those that are in a circle only as folders are."""
    path = Path(module)
    changed = ast.parse(ast.unparse(trees[path]) + f"\n\ndef late() -> None:\n    {line}\n")
    found = [*layout.circles({**trees, path: changed})]
    assert len(found) >= 1
    assert "circle" in found[0]


def test_no_two_files_of_tests_have_one_name() -> None:
    """Pytest imports them by their names alone, and runs only the first one of a name."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []
