"""Settings that cannot be meant are refused when the configuration is read, in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from oarpy.configuration import load
from oarpy.model.errors import UsageError


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[energy]\nkeep_alive = ['gpu = 1: two']\n", "energy.keep_alive: 'gpu = 1: two' has no number of nodes"),
        ("[energy]\nkeep_alive = ['3', 'gpu = 1']\n", "energy.keep_alive: 'gpu = 1' has no number of nodes"),
        ("[scheduler]\ntime_zone = 'Middle-earth/Shire'\n", "this machine knows no time zone 'Middle-earth/Shire'"),
        ("[scheduler]\ntime_zone = '../../etc/passwd'\n", "this machine knows no time zone '../../etc/passwd'"),
    ],
)
def test_refused(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        load({"OARPY_CONFIG": str(path)})
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_accepted(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("[energy]\nkeep_alive = ['gpu = 1: 2', ': 1']\n[scheduler]\ntime_zone = 'UTC'\n")
    assert load({"OARPY_CONFIG": str(path)}).scheduler.time_zone == "UTC"
