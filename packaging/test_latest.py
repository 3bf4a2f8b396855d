"""Use the wheel with versions that no list of this checkout names: the newest, then the lowest of pyproject.toml.

For each, a fresh environment gets the wheel with the extras of a user; then every command answers ``--help``, and
``oarpy try`` runs a job and answers a request for a page. The exit status is 1 if anything fails.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pins import PROJECT, ROOT, requirements

EXTRAS = ("embedded", "web")
USE = (
    "oarsub --wait -l core=1,walltime=0:5:0 date && cat OAR.1.stdout && oarstat --full 1 && "
    "oarpy config check && oarpy db check"
)
PAGE = (
    "import sys, urllib.request as r, tomllib; c = tomllib.load(open('../config.toml', 'rb'));"
    "print(r.urlopen('http://' + c['web']['listen'] + '/login').status)"
)


def lowest() -> Iterator[str]:
    """Yield each requirement of the product with its lowest version."""
    for requirement in requirements(PROJECT):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in EXTRAS):
            (version,) = (one.version for one in requirement.specifier if one.operator == ">=")
            yield f"{requirement.name}=={version}"


def run(*words: str | Path, text: str | None = None, environment: dict[str, str] | None = None) -> str:
    """Run a command to its end, and return what it printed; end the program if it fails."""
    done = subprocess.run(words, input=text, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-4000:]}")
    return done.stdout


def try_versions(title: str, folder: Path, wheel: Path, constraints: str) -> None:
    """Install the wheel in ``folder`` under ``constraints``, and use it."""
    print(f"== {title}", flush=True)
    run(sys.executable, "-m", "venv", folder)
    (folder / "constraints.txt").write_text(constraints, encoding="utf-8")
    binaries = folder / "bin"
    wanted = f"{wheel}[{','.join(EXTRAS)}]"
    run(binaries / "python", "-m", "pip", "install", "-qq", "-c", folder / "constraints.txt", wanted)
    print(run(binaries / "python", "-m", "pip", "freeze"), flush=True)
    commands = sorted(path for path in binaries.glob("oar*"))
    for command in commands:
        run(command, "--help")
    print(f"{len(commands)} commands answer --help", flush=True)
    environment = {**os.environ, "SHELL": "/bin/sh", "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}"}
    typed = f'{USE}\n{binaries}/python -c "{PAGE}" && echo the page answers\n'
    printed = run(binaries / "oarpy", "try", "--directory", folder / "try", text=typed, environment=environment)
    print(printed, flush=True)
    if "the page answers" not in printed or "the database is as it should be" not in printed:
        sys.exit(f"{title}: not everything was done")


def main() -> None:
    """Build the wheel and try both kinds of versions."""
    with tempfile.TemporaryDirectory(prefix="oarpy-latest-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        run(sys.executable, "-m", "pip", "wheel", "-qq", "--no-deps", "--no-build-isolation", "-w", folder, ROOT)
        (wheel,) = folder.glob("*.whl")
        try_versions("the newest versions", folder / "newest", wheel, "")
        try_versions("the lowest versions", folder / "lowest", wheel, "".join(f"{one}\n" for one in lowest()))


if __name__ == "__main__":
    main()
