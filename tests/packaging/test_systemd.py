"""The systemd units: they start commands that exist and cover every module."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from oarpy import slices
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
    assert wanted == [f"oarpy@{name}.service" for name in (*MODULES, *PROGRAMS, *slices.MODULES)]


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


def test_units_are_installed_with_their_user_and_folders_and_systemd_takes_them(tmp_path: Path) -> None:
    """``make units`` puts them where systemd looks; the command is the one that is installed."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed here (apt install systemd)")
    command = ["make", "units", f"DESTDIR={tmp_path}", f"BINDIR={Path(sys.executable).parent}"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    installed = tmp_path / "etc/systemd/system"
    assert {path.name for path in installed.iterdir()} == {path.name for path in UNITS.glob("oarpy*")}
    units = [installed / name for name in ("oarpy-server.service", "oarpy@.service", "oarpy.target")]
    done = subprocess.run([analyze, "verify", "--man=no", *units], capture_output=True, text=True, check=False)
    assert [line for line in done.stderr.splitlines() if "oarpy" in line] == []
    users = ["systemd-sysusers", f"--root={tmp_path}", "oarpy.conf"]
    subprocess.run(users, check=True, capture_output=True)
    assert "oarpy:x:" in (tmp_path / "etc/passwd").read_text()
    folders = (tmp_path / "etc/tmpfiles.d/oarpy.conf").read_text().splitlines()
    assert [line.split()[1] for line in folders if line.startswith("d")] == ["/var/lib/oarpy", "/etc/oarpy"]


@pytest.mark.parametrize("unit", SERVICES, ids=lambda path: path.name)
def test_a_service_leaves_its_state_as_closed_as_it_was_made(unit: Path) -> None:
    """systemd sets the mode of its state folder at each start; the folder is made at boot, see ``tmpfiles.d``."""
    made = (UNITS / "tmpfiles.d" / "oarpy.conf").read_text(encoding="utf-8").splitlines()
    modes = {line.split()[1]: line.split()[2] for line in made if line.startswith("d")}
    assert values(unit, "StateDirectory") == ["oarpy"]
    assert values(unit, "StateDirectoryMode") == [modes["/var/lib/oarpy"]]


@pytest.mark.parametrize("unit", SERVICES, ids=lambda path: path.name)
def test_no_number_of_starts_is_too_many(unit: Path) -> None:
    """Else systemd gives a service up after five starts in ten seconds."""
    assert values(unit, "StartLimitIntervalSec") == ["0"]
    assert values(unit, "Restart") == ["always"]


def test_both_ways_to_run_exclude_each_other() -> None:
    """All modules under one supervisor, or one service each."""
    assert values(UNITS / "oarpy-server.service", "Conflicts") == ["oarpy.target"]
    assert values(UNITS / "oarpy.target", "Conflicts") == ["oarpy-server.service"]
