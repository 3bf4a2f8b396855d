"""An environment that oarpy was installed in."""

from __future__ import annotations

import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

from tests.harness.bare_environment import bare_environment

ROOT = Path(__file__).resolve().parent.parent.parent


def installed_commands() -> set[str]:
    """Return the names of all commands that the project installs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    programs = project["tool"]["setuptools"]["script-files"]
    return {*project["project"]["scripts"], *(Path(program).name for program in programs)}


@dataclass(frozen=True, slots=True)
class Installation:
    """A virtual environment; ``added`` are the names that the installation put into site-packages."""

    folder: Path
    site: Path
    added: frozenset[str]

    def run(self, program: str, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, away from the checkout and without its settings."""
        return subprocess.run(
            [str(self.folder / "bin" / program), *arguments],
            cwd=cwd or self.folder,
            env=bare_environment(HOME=str(self.folder)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
