"""Run mypy over the laid out tree and print the paths of the checkout: ``python packaging/check_types.py TREE``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from source_tree import BESIDE, ROOT, package_directories

SCRIPTS = ("packaging", "docs")
"""Folders of scripts that are no package: each file is checked by itself."""

_MYPY = (sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"))


def mypy(tree: Path, *arguments: str) -> int:
    """Run mypy with the project's settings; return its exit status."""
    done = subprocess.run(
        [*_MYPY, "--cache-dir", f"{tree}.cache", *arguments],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": os.pathsep.join([str(tree), *(str(ROOT / name) for name in SCRIPTS)])},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    sys.stdout.write(_with_source_paths(done.stdout, tree))
    return done.returncode


def _with_source_paths(text: str, tree: Path) -> str:
    shown = os.path.relpath(tree, ROOT)
    # the deepest package first: oarpy/commands is commands/, not oarpy/
    for package, folder in sorted(package_directories().items(), reverse=True):
        text = text.replace(f"{shown}/{package.replace('.', '/')}/", f"{folder}/")
    for name in BESIDE:
        text = text.replace(f"{shown}/{name}/", f"{name}/")
    return text


def main() -> int:
    """Check packages, tests and scripts."""
    tree = Path(sys.argv[1]).resolve()
    packages = [word for name in ("oarpy", *BESIDE) for word in ("-p", name)]
    scripts = [str(path) for name in SCRIPTS for path in sorted((ROOT / name).glob("*.py"))]
    return max(mypy(tree, *packages), mypy(tree, *scripts))


if __name__ == "__main__":
    sys.exit(main())
