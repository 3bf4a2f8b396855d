"""``docs/commands.md`` describes every command as it is."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"


def load() -> ModuleType:
    specification = importlib.util.spec_from_file_location("command_pages", DOCS / "command_pages.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


PAGES = load()
COMMANDS = PAGES.commands()


def section(name: str) -> str:
    """Return what the page says under the heading of a command."""
    found = re.search(
        rf"^## {name}\n(.*?)(?=^## |\Z)", (DOCS / "commands.md").read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    assert found is not None
    return found[1]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_mentioned(name: str) -> None:
    text = section(name)
    assert [
        option for option in sorted(PAGES.options(name)) if not re.search(rf"(?<![\w-]){option}(?![\w-])", text)
    ] == []


OARS = [name for name in COMMANDS if name not in ("oarpy", "oaradmissionrules", "oarsub")]


@pytest.mark.parametrize("name", OARS)
def test_output_and_exit_statuses_are_described(name: str) -> None:
    text = section(name)
    assert "\nExit status: " in text
    if name in ("oargriddoor", "oarnegotiate", "oargridsh"):  # all that they print is JSON, or what a program prints
        return
    assert re.search(r"`-J`", text)
    assert name == "oarcp" or {"-J", "--json"} <= PAGES.options(name)  # oarcp has the options of scp


def test_the_page_is_current() -> None:
    current = PAGES.commands_page() == (DOCS / "commands.md").read_text("utf-8")
    assert current, "run python docs/command_pages.py"
