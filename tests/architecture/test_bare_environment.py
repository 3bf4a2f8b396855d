"""What the machine has of oarpy is not in the environment of tests, nor of what they start."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from oarpy import configuration
from oarpy.frontend import discovery
from tests.harness.bare_environment import KEPT_PREFIXES, NO_GATEWAY, bare_environment
from tests.harness.examples import AT_RANDOM, QUICKLY

FOREIGN = {
    "PGHOST": "127.0.0.1",
    "PGSERVICE": "site",
    "OARPY_DATABASE_URL": "postgresql:///site",
    "OARPY_GATEWAY_SOCKET": "/run/oarpy/gateway.sock",
    "OARPY_CONFIG": "/etc/oarpy/config.toml",
    "OAR_JOB_ID": "7",
    "VISUAL": "vi",
}


def test_nothing_but_what_tests_need_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in FOREIGN.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "oarsub").touch(mode=0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    made = bare_environment(OAR_USER="ann")
    assert not set(FOREIGN.items()) & set(made.items())
    named = {name for name in made if name.startswith(("PG", "OAR")) and not name.startswith(KEPT_PREFIXES)}
    assert named == {"OARPY_CONFIG", "OAR_USER"}
    assert str(tmp_path) not in made["PATH"].split(os.pathsep)
    home = Path(made["HOME"])
    assert home.name.startswith("oarpy-bare-")
    assert not [name for name in (".config/oarpy", ".oarpy", ".pgpass", ".pg_service.conf") if (home / name).exists()]
    assert Path(made["OARPY_CONFIG"]).read_text() == ""


def test_this_process_finds_no_gateway_and_no_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    assert discovery.socket_path() == ""
    assert set(configuration.load().origins.values()) == {"default"}
    monkeypatch.delenv("OARPY_CONFIG")
    assert not Path(discovery.socket_path()).exists()
    assert configuration.load().path == ""
    for name, value in NO_GATEWAY.items():
        monkeypatch.setenv(name, value)
    assert discovery.socket_path() == ""


@pytest.mark.parametrize("name", [QUICKLY, AT_RANDOM])
def test_workers_know_how_many_examples_to_try(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "1")
    assert name in bare_environment()
