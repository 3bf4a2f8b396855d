"""Help looks the same everywhere, and man pages say what help says."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import typer
from oarpy.commands.completion import command_names, tree
from typer.core import TyperArgument, TyperGroup, TyperOption

from oarpy.client.boundary import Parser, execute

ROOT = Path(__file__).resolve().parents[3]
NODES = [node for name in command_names() for node in tree(name)]
PATHS = [path for path, _ in NODES]
SECTIONS = ["Arguments:", "Options:", "Commands:"]


@pytest.mark.parametrize(("path", "command"), NODES, ids=PATHS)
def test_help_has_the_same_sections_and_forms(path: str, command: Parser, capsys: pytest.CaptureFixture[str]) -> None:
    name, *below = path.split()
    app: typer.Typer = importlib.import_module(f"oarpy.commands.{name}").app
    assert execute(app, name, [*below, "--help"]) == 0
    text = capsys.readouterr().out
    assert text.isprintable() or not re.search("[╭│╰\x1b]", text)
    if path == "oarpy bench":
        return
    assert text.startswith(f"Usage: {path} ")
    found = [line for line in text.splitlines() if line in SECTIONS]
    assert found == [section for section in SECTIONS if section in found]
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(("path", "command"), NODES, ids=PATHS)
def test_each_option_is_described_by_sentences(path: str, command: Parser) -> None:
    assert (command.help or "").strip()
    for one in command.params:
        if isinstance(one, TyperArgument | TyperOption) and not one.hidden and one.name != "help":
            assert re.search(r"[.)]$|\.\.\.$", one.help or ""), f"{path} {one.name}: {one.help}"
    if not isinstance(command, TyperGroup):
        jsons = [one.help for one in command.params if isinstance(one, TyperOption) and "--json" in one.opts]
        assert all((text or "").startswith(("Print JSON", "Accepted", "Print ")) for text in jsons)


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed (apt install groff)")
def test_man_pages_are_sound_roff() -> None:
    pages = sorted((ROOT / "packaging" / "man").glob("*.1"))
    assert [page.stem for page in pages] == command_names()
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-z", *pages], capture_output=True, text=True, timeout=120, check=True
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_man_pages_are_current() -> None:
    import sys

    sys.path.insert(0, str(ROOT / "docs"))
    try:
        pages = importlib.import_module("man_pages").man_pages()
    finally:
        sys.path.remove(str(ROOT / "docs"))
    kept = {page.name: page.read_text("utf-8") for page in (ROOT / "packaging" / "man").glob("*.1")}
    stale = [name for name in {*pages, *kept} if pages.get(name) != kept.get(name)]
    assert stale == [], "run make man"
