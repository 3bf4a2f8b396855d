"""The machine of the server: settings that name missing files, room on disks, sockets that nobody answers."""

from __future__ import annotations

import os
import shutil
import socket
import stat
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from oarpy.client.health.finding import Finding
from oarpy.configuration import Configuration
from oarpy.model.errors import OarpyError
from oarpy.modules.launcher.addresses import channel_config
from oarpy.modules.loop.logging import check_settings

LEAST_PART, LEAST_BYTES = 0.05, 1 << 30
"""A disk with less than both of these free is as good as full."""

_CONNECT_SECONDS = 3.0


def settings(configuration: Configuration) -> Iterator[Finding]:
    """Yield settings that name missing files, or that make no sense together."""
    for check in (lambda: check_settings(configuration.log), lambda: channel_config(configuration.nodes, "doctor")):
        try:
            check()
        except OarpyError as error:
            yield Finding("configuration", error.message, error.hint)
    for name in ("server_prologue", "server_epilogue"):
        program = getattr(configuration.jobs, name)
        if program and not os.access(program, os.X_OK):
            yield Finding("configuration", f"jobs.{name} '{program}' cannot be run", "correct the path or its rights")
    for key in ("nodes.key_file", "mail.templates"):
        section, _, name = key.partition(".")
        path = getattr(getattr(configuration, section), name)
        if path and _is_unreadable(path):
            yield Finding("configuration", f"{key} '{path}' cannot be read", "correct the path or its rights")
    if configuration.energy.enabled and not configuration.energy.active:
        what = "energy.enabled without both energy.sleep_command and energy.wake_command"
        yield Finding("configuration", what, "set both, or energy.enabled = false")
    if configuration.elastic.most and not configuration.energy.active:
        what = "elastic.most without energy.enabled and both of its commands"
        yield Finding("configuration", what, "set them: they create and delete nodes; or elastic.most = 0")
    if configuration.web.listen and find_spec("uvicorn") is None:
        yield Finding("configuration", "web.listen is set and the web is not installed", "install the extra 'web'")
    yield from _secrets(configuration)


def _is_unreadable(path: str) -> bool:
    """Tell whether the server cannot read a file, as far as the caller can know; a hidden file may be readable."""
    if os.access(path, os.R_OK):
        return False
    return os.geteuid() == 0 or (not os.path.exists(path) and os.access(os.path.dirname(path), os.X_OK))


def _secrets(configuration: Configuration) -> Iterator[Finding]:
    """Yield files with a secret that others may read."""
    key = configuration.nodes.key_file
    if key and _mode(key) & (stat.S_IRWXG | stat.S_IRWXO):
        yield Finding("configuration", f"others may read the key '{key}'", f"chmod 600 {key}")
    if configuration.path and "password" in configuration.database.url and _mode(configuration.path) & stat.S_IROTH:
        what = f"everybody may read the database's password in '{configuration.path}'"
        yield Finding("configuration", what, f"chmod 640 {configuration.path}")


def _mode(path: str) -> int:
    try:
        return os.stat(path).st_mode
    except OSError:
        return 0


def disks(configuration: Configuration) -> Iterator[Finding]:
    """Yield folders of the server without room."""
    folders = {"scheduler.record_passes": configuration.scheduler.record_passes}
    if not configuration.database.url:
        folders["database.directory"] = configuration.database.directory
    for name, folder in folders.items():
        if folder:
            yield from _room(name, _there(Path(folder)))


def _there(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if os.path.exists(folder))


def _room(name: str, folder: Path) -> Iterator[Finding]:
    size, _, free = shutil.disk_usage(folder)
    if is_full(free, size):
        yield Finding("disk", f"{name}: {free >> 20} MiB are free at {folder}", "make room; nothing is lost meanwhile")


def is_full(free: int, size: int) -> bool:
    """Tell whether a disk has so little room (bytes) that an admin should act."""
    return free < LEAST_BYTES and free < LEAST_PART * size


def sockets(configuration: Configuration) -> Iterator[Finding]:
    """Yield places where a process should listen and none does."""
    if configuration.gateway.socket:
        path = configuration.gateway.socket
        yield from _unanswered("gateway.socket", path, path, "oarpy server runs the gateway; or oarpy run gateway")
    if place := configuration.web.listen:
        host, _, port = place.rpartition(":")
        address = place if place.startswith("/") else (host.strip("[]"), int(port) if port.isdigit() else 0)
        yield from _unanswered("web.listen", place, address, "start oarpy web")


def _unanswered(name: str, place: str, address: str | tuple[str, int], todo: str) -> Iterator[Finding]:
    try:
        if isinstance(address, str):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(_CONNECT_SECONDS)
                connection.connect(address)
        else:
            socket.create_connection(address, _CONNECT_SECONDS).close()
    except OSError as error:
        yield Finding("sockets", f"{name} '{place}' is not answered: {error.strerror or error}", todo)
