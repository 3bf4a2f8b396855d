"""Run the demo and put what it printed into its page: ``python docs/transcript.py``."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- transcript: `make docs` runs the demo and writes this -->\n", "<!-- end of transcript -->\n"


def transcript() -> str:
    """Return what ``oarpy demo`` prints, word for word but for the name of its folder."""
    with tempfile.TemporaryDirectory(prefix="oarpy-transcript-") as folder:
        command = [str(Path(sys.executable).with_name("oarpy")), "demo", "--directory", f"{folder}/demo"]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"the demo failed: {done.stderr}")
        subprocess.run([sys.executable, str(ROOT / "packaging" / "remove_clusters.py"), folder], check=True)
        return done.stdout.replace(f"{folder}/demo", ".oarpy/demo").strip()


def main() -> int:
    """Rewrite the block between the two marks."""
    page = ROOT / "docs" / "guides" / "demo.md"
    text = page.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    page.write_text(f"{before}{BEGIN}\n```console\n{transcript()}\n```\n\n{END}{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
