"""Run the demo and put what it printed into the README: ``python docs/transcript.py``."""

from __future__ import annotations

import getpass
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- transcript: `make docs` runs the demo and writes this -->\n", "<!-- end of transcript -->\n"
LONGEST = 118


def transcript() -> str:
    """What ``oarpy demo`` prints, without what differs from machine to machine."""
    with tempfile.TemporaryDirectory(prefix="oarpy-transcript-") as folder:
        command = [str(Path(sys.executable).with_name("oarpy")), "demo", "--directory", f"{folder}/demo"]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"the demo failed: {done.stderr}")
        subprocess.run([sys.executable, str(ROOT / "packaging" / "remove_clusters.py"), folder], check=True)
        return _cut(done.stdout.replace(f"{folder}/demo", ".oarpy/demo").replace(getpass.getuser(), "alice").strip())


def _cut(text: str) -> str:
    """Shorten lines that a page cannot show."""
    return "\n".join(line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..." for line in text.splitlines())


def main() -> int:
    """Rewrite the block between the two marks."""
    page = ROOT / "README.md"
    text = page.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    page.write_text(f"{before}{BEGIN}\n```console\n{transcript()}\n```\n\n{END}{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
