"""Settings that cannot be meant are refused when the configuration is read, in one line."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from oarpy.configuration import SECTIONS, load
from oarpy.model import setting_limits
from oarpy.model.errors import UsageError
from oarpy.scheduler.lines import LINES


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[energy]\nkeep_alive = ['gpu = 1: two']\n", "energy.keep_alive: 'gpu = 1: two' has no number of nodes"),
        ("[energy]\nkeep_alive = ['3', 'gpu = 1']\n", "energy.keep_alive: 'gpu = 1' has no number of nodes"),
        ("[scheduler]\ntime_zone = 'Middle-earth/Shire'\n", "this machine knows no time zone 'Middle-earth/Shire'"),
        ("[scheduler]\ntime_zone = '../../etc/passwd'\n", "this machine knows no time zone '../../etc/passwd'"),
        ("[scheduler]\npolicy = 'best'\n", "scheduler.policy: 'best' is no policy (one of conservative, easy, fcfs)"),
        ("[scheduler]\nsecurity_time = -5\n", "scheduler.security_time: -5 is out of range (0 or more)"),
        ("[nodes]\nlost_timeout = 0\n", "nodes.lost_timeout: 0.0 is out of range (above 0)"),
        ("[nodes]\nport = 70000\n", "nodes.port: 70000 is out of range (at most 65535)"),
        ("[jobs]\nkill_grace = inf\n", "jobs.kill_grace: inf is out of range (a finite number)"),
        ("[modules]\nlauncher = nan\n", "modules.launcher: nan is out of range (a finite number)"),
        ("[gateway]\nworkers = 0\n", "gateway.workers: 0 is out of range (above 0)"),
        ("[walltime]\nmax_increase = ['1h']\n", "walltime.max_increase: '1h' is no limit of a walltime change"),
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


def test_a_variable_that_cannot_be_meant_is_named() -> None:
    with pytest.raises(UsageError, match=r"^OARPY_SCHEDULER_SECURITY_TIME: -1 is out of range \(0 or more\)$"):
        load({"OARPY_SCHEDULER_SECURITY_TIME": "-1", "HOME": "/nonexistent"})


def test_every_default_is_allowed() -> None:
    for name, section in SECTIONS.items():
        for key in (one.name for one in dataclasses.fields(section)):
            setting_limits.check(f"{name}.{key}", getattr(section, key), key)


def test_the_limits_are_about_settings_that_there_are() -> None:
    known = {f"{name}.{one.name}" for name, section in SECTIONS.items() for one in dataclasses.fields(section)}
    assert known >= setting_limits.ABOVE_ZERO | setting_limits.WALLTIME_LIMITS | {"scheduler.policy"}
    assert set(setting_limits.LINES) == set(LINES)


def test_weights_may_be_negative(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("[priority]\nage_weight = -1\n")
    assert load({"OARPY_CONFIG": str(path)}).priority.age_weight == -1
