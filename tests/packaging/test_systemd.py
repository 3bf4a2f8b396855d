"""The systemd units: they start commands that exist and cover every module."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from oarpy.modules.registry import MODULES, PROGRAMS
from tests.packaging.installation import ROOT

UNITS = ROOT / "packaging" / "systemd"
SERVICES = sorted(UNITS.glob("*.service"))
HARDENED = ("NoNewPrivileges=yes", "ProtectSystem=strict", "PrivateTmp=yes", "RestrictSUIDSGID=yes")


def values(unit: Path, key: str) -> list[str]:
    """Every value of a key; systemd adds up repeated lines."""
    lines = unit.read_text(encoding="utf-8").splitlines()
    return [line.partition("=")[2] for line in lines if line.startswith(f"{key}=")]


def test_the_target_wants_every_module() -> None:
    """A module that is added gets its service."""
    wanted = " ".join(values(UNITS / "oarpy.target", "Wants")).split()
    assert wanted == [f"oarpy@{name}.service" for name in (*MODULES, *PROGRAMS)]


@pytest.mark.parametrize("unit", SERVICES, ids=lambda path: path.name)
def test_services_start_commands_that_exist(unit: Path) -> None:
    """The command is a console script of the project; the file is read by systemd as written."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for command in values(unit, "ExecStart") + values(unit, "ExecStartPre"):
        assert Path(command.split()[0]).name in project["project"]["scripts"]
    sections = [line for line in unit.read_text(encoding="utf-8").splitlines() if line.startswith("[")]
    assert sections == ["[Unit]", "[Service]", "[Install]"]


@pytest.mark.parametrize("unit", SERVICES, ids=lambda path: path.name)
def test_services_are_fenced_in_and_spare_jobs(unit: Path) -> None:
    """Stopping a service must not end jobs that run below it, and it can change little of the system."""
    lines = set(unit.read_text(encoding="utf-8").splitlines())
    assert lines >= set(HARDENED)
    assert "KillMode=process" in lines


def test_both_ways_to_run_exclude_each_other() -> None:
    """All modules under one supervisor, or one service each."""
    assert values(UNITS / "oarpy-server.service", "Conflicts") == ["oarpy.target"]
    assert values(UNITS / "oarpy.target", "Conflicts") == ["oarpy-server.service"]
