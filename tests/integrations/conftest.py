"""A cluster on which tools of others run, in environments of their own: see ``make tools`` and ``make test-clients``."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from oarpy.local_cluster.sandbox import Sandbox, local_nodes, running_sandbox

ROOT = Path(__file__).resolve().parent.parent.parent
GUIDE = ROOT / "docs" / "guides" / "tools.md"
TOOLS = Path(sys.prefix) / "tools" / "bin"
CLIENTS = Path(sys.prefix) / "clients" / "bin"
TIMEOUT = 400.0
"""Seconds for a whole script: many times what it takes alone."""


@dataclass(frozen=True, slots=True)
class Site:
    """A cluster, and a folder in which tools run."""

    cluster: Sandbox
    folder: Path

    def run(self, *words: str, check: bool = True, variables: Mapping[str, str] | None = None) -> str:
        """Run a program to its end; return all that it printed."""
        done = subprocess.run(
            words,
            cwd=self.folder,
            env=self.environment(variables or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        assert not check or done.returncode == 0, done.stdout
        return done.stdout

    def script(self, text: str, **variables: str) -> str:
        """Run Python code with the tools; return all that it printed."""
        path = self.folder / "script.py"
        path.write_text(text, encoding="utf-8")
        return self.run(str(TOOLS / "python"), str(path), variables=variables)

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Return what a user of the tools has: commands of the cluster, and a home of its own."""
        return {**self.cluster.environment(), "HOME": str(self.folder), "PYTHONUNBUFFERED": "1", **variables}


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """Two nodes with two cores each."""
    nodes = local_nodes("/host=n[1-2]/cpu={1}/core={2}")
    with running_sandbox(tmp_path_factory.mktemp("cluster"), {}, nodes) as made:
        made.wait_for_gateway(30)
        yield made


@pytest.fixture
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Site:
    """The cluster, with an empty folder, and the tools."""
    if not (TOOLS / "python").exists():
        pytest.skip(f"no environment {TOOLS.parent}: make tools")
    return Site(request.getfixturevalue("cluster"), tmp_path)


@pytest.fixture
def site_with_clients(request: pytest.FixtureRequest, tmp_path: Path) -> Site:
    """The cluster, with an empty folder, and the tools that have a plugin in ``integrations/``."""
    if not (CLIENTS / "python").exists():
        pytest.skip(f"no environment {CLIENTS.parent}: make test-clients")
    return Site(request.getfixturevalue("cluster"), tmp_path)


@pytest.fixture
def snippets() -> Callable[[str], list[str]]:
    """The Python code that a section of the guide shows."""
    text = GUIDE.read_text(encoding="utf-8")

    def of(section: str) -> list[str]:
        (body,) = re.findall(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
        return re.findall(r"^```python\n(.*?)^```", body, re.MULTILINE | re.DOTALL)

    return of
