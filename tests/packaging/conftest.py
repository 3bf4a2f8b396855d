"""The project built and installed for tests, without any network: copies of the sources, fresh environments."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path

import pytest

from tests.packaging.installation import ROOT, Installation


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what a source distribution has, so that nothing is built in the checkout."""
    copy = tmp_path_factory.mktemp("sources")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for folder in project["tool"]["setuptools"]["package-dir"].values():
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    for name in ("grafana", "man", "scripts", "systemd"):
        shutil.copytree(ROOT / "packaging" / name, copy / "packaging" / name)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    return copy


@pytest.fixture(scope="session")
def wheel(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built with the setuptools at hand."""
    target = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-index", "--no-build-isolation"]
    done = subprocess.run([*command, "-w", str(target), str(sources)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return next(target.glob("oarpy_scheduler-*.whl"))


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """A fresh environment with the wheel in it."""
    return _install(tmp_path_factory.mktemp("installed"), str(wheel))


@pytest.fixture(scope="session")
def editable(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """A fresh environment with an editable install of the copy."""
    return _install(tmp_path_factory.mktemp("editable"), "--no-build-isolation", "--editable", str(sources))


def _install(folder: Path, *what: str) -> Installation:
    venv.create(folder, with_pip=False, symlinks=True)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    # Lends what oarpy depends on. Its own .pth files are not read, so the checkout's editable install stays out.
    (site / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    before = {path.name for path in site.iterdir()}
    python = folder / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index"]
    done = subprocess.run(
        [*command, "--ignore-installed", *what], capture_output=True, text=True, check=False, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return Installation(folder, site, frozenset(path.name for path in site.iterdir()) - before)
