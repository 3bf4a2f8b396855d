"""What the commands on files print, byte for byte, for every file that docs and tests have given them.

``files.jsonl.gz`` has the files: scenarios of ``oarpy plan``, ``negotiate`` and ``grid simulate``, traces of
``simulate``. ``digests.txt`` has a line for each: its name, and a digest of all that the command prints and writes.
The seconds that planning took are left out. Who changes what the scheduler decides looks at the differences, and then
renews their digests:

    python -m tests.outputs.kept_outputs --show plan/test_reference-12
    python -m tests.outputs.kept_outputs --renew plan/test_reference-12
    python -m tests.outputs.kept_outputs --renew
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from oarpy.commands.oarpy import app

from oarpy.client.boundary import execute

HERE = Path(__file__).resolve().parent
_DIGESTS = HERE / "digests.txt"
_SECONDS = re.compile(r'"seconds": [0-9.e-]+')
_COLUMNS = "trace.csv"


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file that a command is given: ``command`` is its words, ``arguments`` what stands beside the file."""

    name: str
    command: str
    arguments: tuple[str, ...]
    text: str


def kept_files() -> list[KeptFile]:
    """Return all files, in the order of the archive."""
    with gzip.open(HERE / "files.jsonl.gz", "rt", encoding="utf-8") as lines:
        entries = [json.loads(line) for line in lines]
    return [KeptFile(one["name"], one["command"], tuple(one["arguments"]), one["text"]) for one in entries]


def kept_digests() -> dict[str, str]:
    """Return the digest of each name."""
    return dict(line.split(" ") for line in _DIGESTS.read_text(encoding="utf-8").splitlines())


def outputs_of(command: str, files: Sequence[KeptFile]) -> dict[str, str]:
    """Return what ``command`` prints for each of its ``files``, by name."""
    mine = [file for file in files if file.command == command]
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        return dict(_at_once(command, mine) if command in ("plan", "grid simulate") else _one_by_one(mine))


def digest(output: str) -> str:
    """Return a digest of an output."""
    return hashlib.sha256(output.encode()).hexdigest()[:16]


def _at_once(command: str, files: Sequence[KeptFile]) -> Iterator[tuple[str, str]]:
    """Yield name and output of files that one run of the command takes: a line each, of its output or its errors."""
    for rank, file in enumerate(files):
        Path(f"{rank}.json").write_text(file.text, encoding="utf-8")
    paths = [f"{rank}.json" for rank in range(len(files))]
    printed, errors = _run([*command.split(), *(["--decisions"] if command == "plan" else []), *paths])
    refused = dict(line.split(": ", 1) for line in errors.splitlines())
    lines = iter(printed.splitlines())
    for path, file in zip(paths, files, strict=True):
        yield file.name, _SECONDS.sub('"seconds": 0', refused[path] if path in refused else next(lines))


def _one_by_one(files: Sequence[KeptFile]) -> Iterator[tuple[str, str]]:
    for file in files:
        Path("trace.swf").write_text(file.text, encoding="utf-8")
        for left in Path().glob("*.csv"):
            left.unlink()
        printed, errors = _run([*file.command.split(), *file.arguments])
        written = [f"{path}\n{path.read_text(encoding='utf-8')}" for path in sorted(Path().glob("*.csv"))]
        yield file.name, "".join([_SECONDS.sub('"seconds": 0', printed), errors, *written])


def _run(arguments: Sequence[str]) -> tuple[str, str]:
    """Run ``oarpy`` in this process; return what it prints on standard output and on standard error."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        execute(app, "oarpy", list(arguments))
    return out.getvalue(), err.getvalue()


def main(arguments: Sequence[str]) -> None:
    """Show the outputs of the files that are named, or renew their digests: of all, if none is named."""
    what, *names = arguments
    files = [file for file in kept_files() if not names or file.name in names]
    found = {
        name: text for command in {file.command for file in files} for name, text in outputs_of(command, files).items()
    }
    if what == "--show":
        print("\n".join(f"{name}\n{text}" for name, text in found.items()))
    elif what == "--renew":
        digests = (
            {**kept_digests(), **{name: digest(text) for name, text in found.items()}}
            if names
            else {file.name: digest(found[file.name]) for file in files}
        )
        _DIGESTS.write_text("".join(f"{name} {value}\n" for name, value in digests.items()), encoding="utf-8")
    else:
        raise SystemExit("give --show or --renew, and names")


if __name__ == "__main__":
    os.environ["TZ"] = "UTC"
    main(sys.argv[1:])
