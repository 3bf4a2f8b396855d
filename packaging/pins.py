"""The exact versions that a checkout installs: ``constraints.txt``, and what the tests need in ``constraints-dev.txt``.

``python packaging/pins.py write`` renews both from the environment that runs it. ``python packaging/pins.py try`` asks
the package index whether every version can be installed, by itself, on the oldest Python and on each newer one.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PROJECT = "oarpy-scheduler"
PYTHONS = ("3.11.0", "3.12.0", "3.13.0", "3.14.0")
"""The oldest Python that the project supports, and the first of each later version."""
PROGRAM, DEVELOPMENT = "constraints.txt", "constraints-dev.txt"
TOOLS = "packaging/tools.txt"
EXTRAS = {PROGRAM: "embedded", DEVELOPMENT: "dev"}
"""The extra of the project that each list makes complete; the second list leaves out what the first has."""


def build_requirements() -> Iterator[str]:
    """Yield what builds the project, and what that needs: no list of requirements of an installation has it."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]
    todo = [Requirement(line) for line in build["requires"]]
    while todo:
        requirement = todo.pop()
        if _applies(requirement, ""):
            yield canonicalize_name(requirement.name)
            todo += requirements(requirement.name)


def requirements(name: str) -> list[Requirement]:
    """Return what a distribution needs; of the project, as its description says now."""
    if name != PROJECT:
        return [Requirement(line) for line in metadata.requires(name) or ()]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].items()
    return [Requirement(line) for line in project["dependencies"]] + [
        Requirement(f"{line}; extra == '{extra}'") for extra, lines in extras for line in lines
    ]


def needed(extra: str) -> Iterator[tuple[str, Requirement]]:
    """Yield each requirement behind the project with this extra, with who has it, on any of the Pythons."""
    seen, todo = set[tuple[str, str]](), [(PROJECT, ""), (PROJECT, extra)]
    while todo:
        one = todo.pop()
        if one in seen:
            continue
        seen.add(one)
        for requirement in requirements(one[0]):
            if _applies(requirement, one[1]):
                yield one[0], requirement
                todo += [(canonicalize_name(requirement.name), extra) for extra in ("", *requirement.extras)]


def _applies(requirement: Requirement, extra: str) -> bool:
    marker = requirement.marker
    pythons = ({"python_full_version": one, "python_version": one.rpartition(".")[0]} for one in PYTHONS)
    return marker is None or any(marker.evaluate({"extra": extra, **python}) for python in pythons)


def lists() -> dict[str, list[str]]:
    """Return the lines of each list, with the versions of the environment that runs this."""
    names, found = {PROJECT}, {}
    for file, extra in EXTRAS.items():
        more = {canonicalize_name(one.name) for _, one in needed(extra)} | set(build_requirements())
        found[file] = sorted((_pin(name) for name in more - names), key=str.lower)
        names |= more
    return found


def _pin(name: str) -> str:
    one = metadata.distribution(name)
    return f"{one.name}=={one.version}"


def comments(file: Path) -> list[str]:
    """Return the lines at the head of a list that say what it is."""
    return [line for line in file.read_text(encoding="utf-8").splitlines() if line.startswith("#")]


def write() -> None:
    """Write both lists below their comments."""
    for file, lines in lists().items():
        path = ROOT / file
        path.write_text("\n".join([*comments(path), *lines, ""]), encoding="utf-8")


def try_index(file: str, python: str) -> bool:
    """Ask the index for each version of a list, as a wheel for this Python; print what it lacks."""
    options = ("--dry-run", "--ignore-installed", "--no-deps", "--only-binary=:all:", "--python-version", python)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "install", "-qq", *options, "--target", folder, "-r", file]
        done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, check=False)
    print(f"{file} on Python {python}: {'can' if done.returncode == 0 else 'cannot'} be installed")
    return done.returncode == 0


def main(arguments: list[str]) -> int:
    """Do what the module says."""
    if arguments == ["write"]:
        write()
        return 0
    if arguments == ["try"]:
        found = [try_index(file, python) for python in PYTHONS for file in (*EXTRAS, TOOLS)]
        return 0 if all(found) else 1
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
