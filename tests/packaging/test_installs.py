"""The wheel and the editable install: everything is in them, nothing lands beside them."""

from __future__ import annotations

import socket
import subprocess
import tomllib
import zipfile
from pathlib import Path

from oarpy.wire.frames import Channel, read_message
from oarpy.wire.openings import refusal
from tests.harness.bare_environment import bare_environment
from tests.packaging.installation import ROOT, Installation, installed_commands

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SCRIPTS = sorted(installed_commands())
PACKAGES: list[str] = PROJECT["tool"]["setuptools"]["packages"]
FOLDERS: dict[str, str] = PROJECT["tool"]["setuptools"]["package-dir"]
WITHOUT_HISTORY: str = PROJECT["tool"]["setuptools_scm"]["fallback_version"]
"""The version of sources that come without git's history."""
NOT_INSTALLED = ("ruff.toml",)
"""What package folders have for the checkout alone."""


def expected_files() -> set[str]:
    """Where each file of the package folders should be in the wheel."""
    found = set()
    for package, folder in FOLDERS.items():
        place = package.replace(".", "/")
        for path in (ROOT / folder).rglob("*"):
            inside = path.relative_to(ROOT / folder)
            cache = any(part.startswith((".", "__pycache__")) for part in inside.parts)
            wanted = not any(word in str(path.relative_to(ROOT)) for word in NOT_INSTALLED)
            if path.is_file() and not cache and wanted:
                found.add(f"{place}/{inside}")
    return found


def test_every_folder_with_modules_is_a_listed_package() -> None:
    """A package that is forgotten in pyproject.toml works in the checkout and fails once installed."""
    folders = {Path(name).parent.as_posix().replace("/", ".") for name in expected_files() if name.endswith(".py")}
    assert folders == set(PACKAGES)


def test_the_wheel_has_every_module_and_data_file(wheel: Path) -> None:
    """Admission rules, their cases, migrations with their SQL, the marker of types: all are in the wheel."""
    names = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("oarpy/")}
    assert names == expected_files()


def test_an_installation_has_the_systemd_units(installed: Installation) -> None:
    """With the user and the folders that they need, below the prefix, as they are in the checkout."""

    def contents(folder: Path) -> dict[str, bytes]:
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    found = contents(installed.folder / "share" / "oarpy" / "systemd")
    assert found == contents(ROOT / "packaging" / "systemd")
    assert {"oarpy-server.service", "oarpy.target", "sysusers.d/oarpy.conf", "tmpfiles.d/oarpy.conf"} <= found.keys()


def test_an_installation_has_a_man_page_for_each_command(installed: Installation) -> None:
    pages = {page.stem for page in (installed.folder / "share" / "man" / "man1").glob("*.1")}
    assert set(SCRIPTS) <= pages


def test_an_installed_wheel_adds_one_package_to_site_packages(installed: Installation) -> None:
    """No generic name such as ``commands`` or ``migrations`` lands beside other projects' packages."""
    assert installed.added == {"oarpy", f"oarpy_scheduler-{WITHOUT_HISTORY}.dist-info"}


def test_every_console_script_answers(installed: Installation) -> None:
    """Each script is on the path and prints its help."""
    for name in SCRIPTS:
        done = installed.run(name, "--help")
        assert (done.returncode, done.stderr) == (0, ""), name
        assert "Usage" in done.stdout, name


def test_commands_start_without_looking_for_packages(installed: Installation, tmp_path: Path) -> None:
    """The module that does would load a program of ours; a link to a command is that command."""
    link = tmp_path / "oarsub"
    link.symlink_to(installed.folder / "bin" / "oarstat")
    (tmp_path / "sitecustomize.py").write_text("raise SystemExit('packages are looked for')\n")
    listener = tmp_path / "gateway"
    with socket.socket(socket.AF_UNIX) as gateway:
        gateway.bind(str(listener))
        gateway.listen(1)
        settings = bare_environment(HOME=str(tmp_path), PYTHONPATH=str(tmp_path), OARPY_GATEWAY_SOCKET=str(listener))
        with subprocess.Popen([str(link), "-j", "7"], env=settings, stderr=subprocess.PIPE, text=True) as command:
            connection, _ = gateway.accept()
            with connection:
                request = read_message(Channel(connection).receive()[1])
                connection.sendall(refusal("no, thank you", 3))
            assert command.stderr is not None
            assert command.stderr.read() == "oarstat: no, thank you\n"
    assert (command.returncode, request["command"], request["arguments"]) == (3, "oarstat", ["-j", "7"])


def test_console_scripts_run_nothing_of_the_directory_they_are_started_in(
    installed: Installation, tmp_path: Path
) -> None:
    for name in ("oarpy", "structlog", "typer", "os", "socket", "psycopg"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name} of the current directory')\n")
    for name in SCRIPTS:
        done = installed.run(name, "--help", cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, ""), name


def test_installed_rules_and_migrations_are_found(installed: Installation) -> None:
    """What the code reads beside itself is there after an installation, from the installed place."""
    program = (
        "from oarpy.admission.rules.default_rules import default_rules\n"
        "from oarpy.store.schema import migrations, statements\n"
        "made = sum(len(statements.names(folder)) for folder in ('functions', 'views', 'compat'))\n"
        "print(len(default_rules()), made, migrations.head(), migrations.FOLDER)"
    )
    done = installed.run("python", "-c", program)
    assert done.returncode == 0, done.stderr
    rules, made, head, folder = done.stdout.split()
    assert int(rules) == len(list((ROOT / "admission_rules").glob("[0-9]*.py")))
    assert int(made) == len(list((ROOT / "migrations" / "schema").glob("*/*.sql")))
    assert head == sorted((ROOT / "migrations" / "versions").glob("[0-9]*.py"))[-1].name.partition("_")[0]
    assert Path(folder).is_relative_to(installed.site.resolve())


def test_an_editable_install_runs_the_sources(editable: Installation, sources: Path) -> None:
    """Packages outside ``oarpy/`` are found by their installed names, and changes count at once."""
    program = (
        "import oarpy, oarpy.commands, oarpy.migrations, oarpy.admission_rules\n"
        "for m in (oarpy, oarpy.commands, oarpy.migrations, oarpy.admission_rules): print(m.__file__)"
    )
    done = editable.run("python", "-c", program)
    assert done.returncode == 0, done.stderr
    folders = ("oarpy", "commands", "migrations", "admission_rules")
    assert done.stdout.split() == [str(sources / folder / "__init__.py") for folder in folders]
    added = sources / "commands" / "added_later.py"
    added.write_text("WORD = 'seen'\n", encoding="utf-8")
    done = editable.run("python", "-c", "from oarpy.commands.added_later import WORD; print(WORD)")
    added.unlink()
    assert done.stdout == "seen\n", done.stderr


def test_an_editable_install_adds_no_generic_package(editable: Installation) -> None:
    """Only setuptools' finder and the distribution's own record are added."""
    assert all(name.startswith(("__editable__", "oarpy_scheduler", "__pycache__")) for name in editable.added)
    assert editable.run("python", "-c", "import commands").returncode == 1
    assert editable.run("oarpy", "version").stdout == f"oarpy {WITHOUT_HISTORY}\n"
