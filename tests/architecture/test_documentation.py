"""Pages say what is there: links lead somewhere, generated pages are current, named commands exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from oarpy.model import plugins
from oarpy.model.job_types import TYPES
from tests.packaging.installation import installed_commands

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
FOLDERS = ("admission_rules", "benchmarks", "commands", "docs", "examples", "migrations", "oarpy", "packaging", "tests")
NAMED_FILE = re.compile(rf"(?<![\w/.~$*-])(?:{'|'.join(FOLDERS)})/[\w./*-]*[\w/*]|`[a-z_]+\.py`")
NAMED_MODULE = re.compile(r"`oarpy((?:\.\w+)+)`")
NOT_MODULES = {
    ".conf": "of PostgreSQL",
    ".target": "of systemd",
    ".queue_policies": "a group of plug-ins",
    **{
        group.removeprefix("oarpy"): "a group of plug-ins"
        for group in (
            plugins.RESERVATION_ORDERS,
            plugins.COALLOCATIONS,
            plugins.COMPOSITIONS,
            plugins.PREDICTORS,
            plugins.MAPPINGS,
        )
    },
}


def shown(path: Path) -> str:
    """Name a page in a test's id."""
    return str(path.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as forges make them."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link names a file of the project, and every anchor a heading of it."""
    dead = []
    for link in LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            dead.append(link)
    assert dead == []


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_named_files_exist(page: Path) -> None:
    """Files and folders are named by their way from the root, modules as they are imported; capitals stand for any."""
    text = page.read_text(encoding="utf-8")
    files = {re.sub(r"[A-Z]{2}\w*", "*", name.strip("`")) for name in NAMED_FILE.findall(text)}
    assert sorted(name for name in files if not any(ROOT.glob(name))) == []
    modules = {name.replace(".", "/") for name in {*NAMED_MODULE.findall(text)} - {*NOT_MODULES}}
    assert sorted(name for name in modules if not [*ROOT.glob(f"oarpy{name}*"), *ROOT.glob(f"{name[1:]}*")]) == []


def test_every_page_is_reachable_from_the_index() -> None:
    """A page that no other page names is not found by anybody."""
    seen: set[Path] = set()
    waiting = [ROOT / "docs" / "index.md"]
    while waiting:
        page = waiting.pop()
        if page in seen or page.suffix != ".md" or not page.is_file():
            continue
        seen.add(page)
        waiting += [(page.parent / link.partition("#")[0]).resolve() for link in LINK.findall(page.read_text("utf-8"))]
    assert set((ROOT / "docs").rglob("*.md")) - seen == set()


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    """A page without a place in the navigation, a dead link or a dead anchor is a warning, and ends it."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Coming from" in (tmp_path / "guides/coming-from.html").read_text(encoding="utf-8")


def test_generated_pages_are_current() -> None:
    """The pages made from tables in the code say what the code says now."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=shown)
def test_named_commands_exist(page: Path) -> None:
    """``make`` targets and commands at the start of a line of an example are real."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    scripts = installed_commands()
    text = page.read_text(encoding="utf-8")
    lines = [line.removeprefix("$ ") for block in FENCED.findall(text) for line in block.splitlines()]
    lines += re.findall(r"`((?:make|oar\w*) [^`]*)`", text)
    assert [line for line in lines if (m := re.match(r"make ([a-z-]+)", line)) and m[1] not in targets] == []
    assert [line for line in lines if (m := re.match(r"(oar[a-z]+)(?= |$)", line)) and m[1] not in scripts] == []


def test_every_job_type_is_explained() -> None:
    """The types that the default admission rule knows, beside what a site may add."""
    known = set(TYPES)
    page = (ROOT / "docs" / "guides" / "types.md").read_text(encoding="utf-8")
    explained = {re.split("[=:]", word)[0] for row in page.splitlines() for word in re.findall("`([^`]+)`", row[:60])}
    assert {"container", "besteffort", "deadline"} <= known
    assert known - explained == set()
