"""``oarpy bench`` and ``oarpy reproduce`` where there is no checkout, or a library is missing: one line each."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from oarpy.commands.oarpy import app

import oarpy
from oarpy.client.boundary import execute


@pytest.mark.parametrize("words", [["bench"], ["bench", "planning"], ["reproduce", "deadlines"]])
def test_an_installation_says_that_it_has_no_experiments(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(oarpy, "__file__", str(tmp_path / "site-packages" / "oarpy" / "__init__.py"))
    assert execute(app, "oarpy", words) == 2
    said = "oarpy: experiments and measurements are not installed (run this in a checkout of oarpy)\n"
    assert capsys.readouterr() == ("", said)


def test_a_library_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(_: str) -> ModuleType:
        raise ModuleNotFoundError("No module named 'somelib'", name="somelib")

    monkeypatch.setattr("oarpy.commands.checkout.import_module", missing)
    assert execute(app, "oarpy", ["bench"]) == 2
    assert capsys.readouterr().err == "oarpy: this needs the package somelib (pip install -e '.[research]')\n"
