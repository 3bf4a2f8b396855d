"""Run every test; the last line printed is the total. ``--quick`` leaves out those with a database or a server.

The embedded PostgreSQL takes the whole suite. The oldest one that is supported, where it is installed, takes the tests
marked ``oldest``: schema, store, and one use of each command.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from oarpy.postgres.binaries import available_versions

ROOT = Path(__file__).resolve().parent.parent
OLDEST = "15"
"""The oldest PostgreSQL that is supported, Debian 12's."""
ON_OLDEST = tuple(
    str(path) for path in sorted((ROOT / "tests" / "db").glob("test_*.py")) if "oldest" in path.read_text()
)
"""The files that have tests it takes. The marker is for this folder alone, and each worker reads no other file."""
QUICK = ("tests/unit", "tests/prop", "tests/cases", "tests/architecture", "-m", "not long")
"""What needs neither a database nor a server, and does not take long."""
WORKERS = os.environ.get("OARPY_TEST_WORKERS", str(min(os.cpu_count() or 1, 4) + 2))
"""Two more than processors: tests of real clusters mostly wait, and take turns with those that compute."""
QUICK_WORKERS = os.environ.get("OARPY_TEST_WORKERS", str(min(os.cpu_count() or 1, 4)))
"""Quick tests and those of the oldest PostgreSQL do not wait, and each worker reads all of them first."""
BY_FILE = ("--dist", "loadfile", "--no-loadscope-reorder")
"""A file stays with one worker, so that what its tests share is made once. ``tests/conftest.py`` orders files."""
NOTHING_SELECTED = 5


@dataclass(frozen=True, slots=True)
class Count:
    """How many tests ended how; ``sound`` is false when pytest itself failed."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    sound: bool = True

    def __add__(self, other: Count) -> Count:
        return Count(
            self.passed + other.passed,
            self.failed + other.failed,
            self.skipped + other.skipped,
            self.sound and other.sound,
        )


def run(title: str, *arguments: str, workers: str = WORKERS, version: str | None = None) -> Count:
    """Run pytest once, let it print, and count from its report; tell what campaigns counted."""
    sys.stdout.write(f"\n== {title}\n")
    sys.stdout.flush()
    environment = {**os.environ, **({"OARPY_TEST_POSTGRES": version} if version else {})}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # each worker would take all tests apart, which takes long
    with tempfile.TemporaryDirectory(prefix="oarpy-report-") as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-n", workers, *BY_FILE, f"--junitxml={report}"]
        done = subprocess.run([*command, *arguments], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, check=False)
        _tell_counts(report)
        return _count(report, done.returncode)


def _tell_counts(report: Path) -> None:
    """Print what campaigns say that they did: the property ``counts`` of their tests."""
    if not report.exists():
        return
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        for one in case.iter("property"):
            if one.get("name") == "counts":
                sys.stdout.write(f"{case.get('name')}: {one.get('value')}\n")
    sys.stdout.flush()


def _count(report: Path, status: int) -> Count:
    if not report.exists():
        return Count(sound=False)
    tests = failed = skipped = 0
    for suite in ElementTree.parse(report).getroot().iter("testsuite"):
        tests += int(suite.get("tests", "0"))
        failed += int(suite.get("failures", "0")) + int(suite.get("errors", "0"))
        skipped += int(suite.get("skipped", "0"))
    return Count(tests - failed - skipped, failed, skipped, status in (0, NOTHING_SELECTED))


def run_on_oldest(*arguments: str) -> Count:
    """Run what is marked ``oldest`` there; say so when it is not installed."""
    if OLDEST in available_versions():
        title = f"schema, store and commands, on PostgreSQL {OLDEST}"
        return run(title, *ON_OLDEST, "-m", "oldest", *arguments, workers=QUICK_WORKERS, version=OLDEST)
    sys.stdout.write(f"\n== not run on PostgreSQL {OLDEST}: apt-get install postgresql-{OLDEST}\n")
    return Count()


def main(arguments: list[str]) -> int:
    """Run the suite, with extra arguments for pytest; exit status 1 when anything failed."""
    if arguments[:1] == ["--quick"]:
        os.environ["OARPY_TEST_QUICK"] = "1"
        title = "tests without a database or a server, with a twentieth of the random examples"
        total = run(title, *QUICK, *arguments[1:], workers=QUICK_WORKERS)
    else:
        total = run("every test, on the embedded PostgreSQL", *arguments)
        total += run_on_oldest(*arguments)
    sys.stdout.write(f"\n{total.passed} passed, {total.failed} failed, {total.skipped} skipped\n")
    return 0 if total.sound and not total.failed and total.passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
