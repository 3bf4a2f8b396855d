"""docker-compose.yml, read without an engine: its form, and that everything it names is there."""

from __future__ import annotations

import json
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import paramiko
import pytest
import yaml

from oarpy.configuration import load
from tests.packaging.installation import ROOT

HERE = Path(__file__).resolve().parent
SCHEMA: dict[str, Any] = json.loads((HERE / "compose.schema.json").read_text(encoding="utf-8"))
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
NODES = ("node1", "node2")


def test_the_file_follows_the_specification() -> None:
    """Every key and value is one that compose knows."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(COMPOSE, SCHEMA, cls=jsonschema.Draft202012Validator)


@pytest.mark.parametrize(
    "change",
    [{"imgae": "postgres:18"}, {"restart": "sometimes"}, {"volumes": ["keys"]}, {"healthcheck": {"interval": "2s"}}],
)
def test_a_mistake_is_noticed(change: dict[str, Any]) -> None:
    """The schema is strict enough to catch a misspelt key or value."""
    wrong = {**COMPOSE, "services": {**SERVICES, "server": {**SERVICES["server"], **change}}}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, SCHEMA, cls=jsonschema.Draft202012Validator)


def test_services_are_a_whole_cluster() -> None:
    """What the end-to-end tests start without containers: a database, the server, SSH nodes, somewhere to submit."""
    assert set(SERVICES) == {"database", "keys", *NODES, "server", "frontend"}
    assert SERVICES["database"]["image"] == "postgres:18"
    assert SERVICES["server"]["command"] == ["sh", "-c", "oarpy db upgrade && exec oarpy server"]


def test_what_a_service_waits_for_can_happen() -> None:
    """Dependencies exist, those waited for by health have a health check, and there is no circle."""
    for name, service in SERVICES.items():
        for other, how in service.get("depends_on", {}).items():
            assert how["condition"] != "service_healthy" or "healthcheck" in SERVICES[other], (name, other)
    order: list[str] = []
    while len(order) < len(SERVICES):
        ready = [n for n, s in SERVICES.items() if n not in order and set(s.get("depends_on", {})) <= set(order)]
        assert ready, f"services that wait for each other: {set(SERVICES) - set(order)}"
        order += ready


def test_named_files_and_volumes_exist() -> None:
    """Build contexts, Dockerfiles, what they copy, and volumes."""
    used = set()
    for service in SERVICES.values():
        if build := service.get("build"):
            context = ROOT / build["context"]
            dockerfile = context / build["dockerfile"]
            for line in dockerfile.read_text(encoding="utf-8").splitlines():
                if line.startswith("COPY "):
                    words = [word for word in line.split()[1:-1] if not word.startswith("--")]
                    assert [word for word in words if not (context / word).exists()] == []
        used |= {volume.partition(":")[0] for volume in service.get("volumes", ())}
    assert used == set(COMPOSE["volumes"])


def test_the_image_gets_every_package_folder() -> None:
    """The build context lets in what the wheel is made of, and nothing that holds secrets or caches."""
    folder = ROOT / "packaging" / "docker"
    allowed = {
        line.removeprefix("!")
        for line in (folder / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
        if line.startswith("!")
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    tools = project["tool"]["setuptools"]
    scripts = {script.partition("/")[0] for script in tools["script-files"]}
    folders = set(tools["package-dir"].values()) | scripts
    assert allowed == folders | {"pyproject.toml", "constraints.txt", "README.md", "LICENSE"}
    assert all(f"COPY {name} {name}\n" in (folder / "Dockerfile").read_text(encoding="utf-8") for name in folders)


@pytest.mark.parametrize("name", ["server", "frontend"])
def test_settings_are_ones_that_oarpy_knows(name: str) -> None:
    """Each variable is the setting that it seems to be, and reads without an error."""
    given: dict[str, str] = SERVICES[name]["environment"]
    origins = load({**given, "HOME": "/nonexistent"}).origins
    assert {origin for origin in origins.values() if origin.startswith("OARPY_")} == set(given)


def test_users_reach_the_gateway_and_nothing_else() -> None:
    """The front end shares the gateway's folder with the server, and holds no secret."""
    server, frontend = SERVICES["server"], SERVICES["frontend"]
    assert frontend["environment"] == {"OARPY_GATEWAY_SOCKET": server["environment"]["OARPY_GATEWAY_SOCKET"]}
    (shared,) = set(server["volumes"]) & set(frontend["volumes"])
    assert str(Path(server["environment"]["OARPY_GATEWAY_SOCKET"]).parent) == shared.partition(":")[2]


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no ssh-keygen here (apt-get install openssh-client)")
def test_keys_are_made_once_and_nodes_are_known(tmp_path: Path) -> None:
    """The service ``keys`` makes what the server and the nodes read, and keeps it when it runs again."""
    program, *arguments = SERVICES["keys"]["entrypoint"]
    assert arguments == ["/keys", *NODES]
    script = str(ROOT / "packaging" / "docker" / f"{program}.sh")
    subprocess.run([script, str(tmp_path), *NODES], check=True, capture_output=True)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    subprocess.run([script, str(tmp_path), *NODES], check=True, capture_output=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    hosts = paramiko.HostKeys(str(tmp_path / "known_hosts"))
    for node in NODES:
        assert hosts.check(node, paramiko.PKey.from_path(tmp_path / node))
    settings = SERVICES["server"]["environment"]
    assert {Path(settings[f"OARPY_NODES_{key}"]).name for key in ("KEY_FILE", "KNOWN_HOSTS")} <= set(before)


@pytest.mark.parametrize("script", sorted((ROOT / "packaging").rglob("*.sh")), ids=lambda path: path.name)
def test_shell_scripts_parse(script: Path) -> None:
    """No syntax error, and each stops at its first failure."""
    text = script.read_text(encoding="utf-8")
    shell = text.splitlines()[0].removeprefix("#!")
    assert subprocess.run([shell, "-n", str(script)], check=False).returncode == 0
    assert "\nset -eu" in text
