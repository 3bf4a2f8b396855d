"""Lay out the checkout as it is installed: ``python packaging/source_tree.py FOLDER``.

``commands/``, ``migrations/`` and others are installed inside ``oarpy``. Tools that read source files, as the type
checker and the import contracts do, cannot follow the mapping of an editable install. So they read this tree of links
instead. Research and tests lie beside ``oarpy`` in it.
"""

from __future__ import annotations

import shutil
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BESIDE = ("research", "tests")


def package_directories(root: Path = ROOT) -> dict[str, str]:
    """Return the folder of each top package, as ``[tool.setuptools.package-dir]`` maps them."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    return dict(project["tool"]["setuptools"]["package-dir"])


def lay_out(target: Path, root: Path = ROOT) -> None:
    """Fill ``target`` anew with links to the Python files of ``root``."""
    shutil.rmtree(target, ignore_errors=True)
    places = package_directories(root) | {name: name for name in BESIDE}
    for package, folder in places.items():
        _link(root / folder, target / package.replace(".", "/"))


def _link(source: Path, target: Path) -> None:
    for path in sorted(source.rglob("*")):
        if path.suffix in (".py", ".pyi", ".typed") or path.name == "py.typed":
            link = target / path.relative_to(source)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path)


if __name__ == "__main__":
    lay_out(Path(sys.argv[1]))
