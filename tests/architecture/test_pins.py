"""The exact versions that a checkout installs fit together, since nothing searches for others."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from tests.architecture.test_contracts import script

pins = script("pins")
OLDEST, NEWEST = pins.PYTHONS[0], pins.PYTHONS[-1]


@pytest.mark.parametrize("name", pins.EXTRAS)
def test_a_list_has_what_its_extra_needs_and_nothing_else(name: str) -> None:
    """As ``python packaging/pins.py write`` would write it."""
    lines = [line for line in Path(pins.ROOT, name).read_text(encoding="utf-8").splitlines() if line[0] != "#"]
    assert lines == pins.lists()[name]


def test_every_version_is_one_that_its_users_ask_for() -> None:
    """A version that somebody's bounds leave out would be installed without a word."""
    wrong = [
        f"{user} needs {one}, not {metadata.version(one.name)}"
        for extra in pins.EXTRAS.values()
        for user, one in pins.needed(extra)
        if one.name != pins.PROJECT and not one.specifier.contains(metadata.version(one.name), prereleases=True)
    ]
    assert wrong == []


@pytest.mark.parametrize("python", [OLDEST, NEWEST])
def test_every_version_runs_on_every_python(python: str) -> None:
    """Debian 12 has 3.11.2: a package that needs 3.11.5 cannot be installed there, though it can here."""
    names = [line.partition("==")[0] for lines in pins.lists().values() for line in lines]
    asked = {name: str(metadata.metadata(name).json.get("requires_python", "")) for name in names}
    assert {name: versions for name, versions in asked.items() if python not in SpecifierSet(versions)} == {}
