"""``oarpy try``: a cluster in a folder with a shell for it, and its page while the shell is open."""

from __future__ import annotations

import fcntl
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

from oarpy.local_cluster.sandbox import Sandbox, Settings, local_nodes
from oarpy.model.errors import UsageError

NODES = 4
CORES = 2
"""The number of cores of each node."""
_GATEWAY_TIMEOUT = 30.0
_PAGE_TIMEOUT = 60.0
_POLL = 0.05
_PAGE_LIBRARIES = ("fastapi", "uvicorn", "python_multipart")


def try_cluster(directory: Path, words: Sequence[str]) -> int:
    """Run ``words``, or a shell, with a cluster that lives as long; return its exit status.

    The folder keeps the cluster: the next call continues with its database. Jobs that still run at the end are killed.
    Raises :class:`UsageError` if another process uses the folder, :class:`OarpyError` if no cluster starts.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):  # a terminal that is closed stops the cluster, too
        signal.signal(number, lambda number, _frame: sys.exit(128 + number))
    directory.mkdir(parents=True, exist_ok=True)
    with _alone(directory), _running(Sandbox(directory, {} if words else _settings())) as sandbox:
        if words:
            return _run([*words], sandbox)
        with _page(sandbox) as page:
            sys.stdout.write(_welcome(sandbox, page))
            sys.stdout.flush()
            status = _run([os.environ.get("SHELL", "/bin/sh")], sandbox)
        sys.stdout.write(f"The cluster is stopped. `oarpy try` goes on with it; it is kept in {directory}\n")
        return status


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    with (directory / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"the cluster in {directory} runs already",
                hint="use the shell that it opened, or another folder: oarpy try --directory FOLDER",
            ) from None
        yield


@contextmanager
def _running(sandbox: Sandbox) -> Iterator[Sandbox]:
    try:
        sandbox.create()
        sandbox.start()
        sandbox.wait_for_gateway(_GATEWAY_TIMEOUT)
        if not sandbox.run("oarnodes", "-l").stdout.strip():
            sandbox.run(*local_nodes(f"/host=node[1-{NODES}]/cpu={{1}}/core={{{CORES}}}"))
        yield sandbox
    finally:
        sandbox.end()


def _settings() -> Settings:
    return {"web": {"listen": f"127.0.0.1:{_free_port()}"}} if _has_pages() else {}


def _has_pages() -> bool:
    return all(find_spec(name) for name in _PAGE_LIBRARIES)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def _page(sandbox: Sandbox) -> Iterator[str]:
    """The lines about the pages of the cluster, which are served meanwhile."""
    listen = sandbox.settings.get("web", {}).get("listen")
    if not listen:
        yield "  its pages    need the extra: pip install 'oarpy-scheduler[web]'\n"
        return
    web = sandbox.background("web.log", "oarpy", "web")
    try:
        token = sandbox.run("oartoken", "new", "--scope", "admin", "--label", "oarpy try").stdout.split()[-1]
        _wait_for_port(str(listen), web)
        yield f"  its pages    http://{listen}\n  a token      {token}\n"
    finally:
        web.terminate()
        web.wait(_PAGE_TIMEOUT)


def _wait_for_port(listen: str, web: subprocess.Popen[bytes]) -> None:
    host, _, port = listen.rpartition(":")
    until = time.monotonic() + _PAGE_TIMEOUT
    while web.poll() is None and time.monotonic() < until:
        with suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
            return
        time.sleep(_POLL)


def _welcome(sandbox: Sandbox, page: str) -> str:
    return (
        f"A cluster of {NODES} nodes with {CORES} cores each runs in {sandbox.directory}.\n"
        f"{page}"
        "  a job        oarsub -l nodes=2,walltime=0:10:0 'sleep 60'\n"
        "  who waits    oarstat, and oarstat --why JOB\n"
        "  the end      exit\n"
    )


def _run(words: list[str], sandbox: Sandbox) -> int:
    work = sandbox.directory / "work"
    try:
        return subprocess.run(words, env=sandbox.environment(), cwd=work, check=False).returncode
    except OSError as error:
        sys.stderr.write(f"oarpy try: {shlex.join(words)} cannot be started: {error.strerror}\n")
        return 127
