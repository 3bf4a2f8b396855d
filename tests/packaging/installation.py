"""An environment that oarpy was installed in."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True, slots=True)
class Installation:
    """A virtual environment; ``added`` are the names that the installation put into site-packages."""

    folder: Path
    site: Path
    added: frozenset[str]

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, away from the checkout and without its settings."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("OAR", "PYTHON"))}
        return subprocess.run(
            [str(self.folder / "bin" / program), *arguments],
            cwd=self.folder,
            env={**kept, "HOME": str(self.folder)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
