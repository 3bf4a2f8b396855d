"""Run every test, on each PostgreSQL that is supported and installed; the last line printed is the total.

The embedded server takes the whole suite; the other version takes the tests that use a database.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from oarpy.store.server_binaries import available_versions

ROOT = Path(__file__).resolve().parent.parent
OTHER_VERSION = "15"
"""The oldest PostgreSQL that is supported, Debian 12's."""
WORKERS = os.environ.get("OARPY_TEST_WORKERS", "2")
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


def run(title: str, *arguments: str, version: str | None = None) -> Count:
    """Run pytest once, let it print, and count from its report."""
    sys.stdout.write(f"\n== {title}\n")
    sys.stdout.flush()
    environment = {**os.environ, **({"OARPY_TEST_POSTGRES": version} if version else {})}
    with tempfile.TemporaryDirectory(prefix="oarpy-report-") as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-n", WORKERS, "--dist", "worksteal", f"--junitxml={report}"]
        done = subprocess.run([*command, *arguments], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, check=False)
        return _count(report, done.returncode)


def _count(report: Path, status: int) -> Count:
    if not report.exists():
        return Count(sound=False)
    tests = failed = skipped = 0
    for suite in ElementTree.parse(report).getroot().iter("testsuite"):
        tests += int(suite.get("tests", "0"))
        failed += int(suite.get("failures", "0")) + int(suite.get("errors", "0"))
        skipped += int(suite.get("skipped", "0"))
    return Count(tests - failed - skipped, failed, skipped, status in (0, NOTHING_SELECTED))


def main(arguments: list[str]) -> int:
    """Run the suite, with extra arguments for pytest; exit status 1 when anything failed."""
    total = run("every test, on the embedded PostgreSQL", *arguments)
    if OTHER_VERSION in available_versions():
        total += run(
            f"tests that use a database, on PostgreSQL {OTHER_VERSION}", "-m", "db", *arguments, version=OTHER_VERSION
        )
    else:
        sys.stdout.write(f"\n== not run on PostgreSQL {OTHER_VERSION}: apt-get install postgresql-{OTHER_VERSION}\n")
    sys.stdout.write(f"\n{total.passed} passed, {total.failed} failed, {total.skipped} skipped\n")
    return 0 if total.sound and not total.failed and total.passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
