"""The guide for admins on machines that systemd has booted: install, key, nodes, jobs, an update, a boot.

``python -m tests.campaigns.booted_machines`` (``make booted``; as root, on Debian) installs ``debootstrap`` and
``systemd-container`` where they are missing. It builds the package of this checkout, and that of the commit before the
newest revision of the schema. Debian is put together by debootstrap, and stays for the next time. It boots three times
by systemd-nspawn, in a network that nobody else sees: a server and two nodes. What is typed there are the blocks of the
guide as they stand.
It takes some minutes and 3 GB, so it is run at night and not by ``make test``. Where no container can be booted, it
says so and ends with status 0.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.campaigns.namespace_nodes import can_isolate, isolate

ROOT = Path(__file__).resolve().parent.parent.parent
GUIDE = ROOT / "docs" / "guides" / "admin.md"
MODULE = "tests.campaigns.booted_machines"
PROGRAMS = {"debootstrap": "debootstrap", "systemd-container": "systemd-nspawn", "iproute2": "ip"}
IN_MACHINES = (
    "systemd,systemd-sysv,dbus,iproute2,procps,python3,openssh-server,openssh-client,postgresql,man-db,bash-completion"
)
"""The packages that an admin's machines have before oarpy comes; they reach no network."""
HUB, NETWORK = "hub", "10.78.0"
MACHINES = {"server": 1, "node1": 2, "node2": 3}
USER, USER_ID = "ann", 1001
_BASE = Path("/var/tmp/oarpy-booted-debian")
_PATIENCE = 240.0
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_ADDRESS = """\
[Match]
Name=host0

[Network]
Address={address}/24
LinkLocalAddressing=no
"""
_PREPARE = f"""
useradd --uid {USER_ID} --no-create-home --shell /bin/bash {USER}
systemctl enable systemd-networkd ssh
systemctl disable systemd-timesyncd apt-daily.timer apt-daily-upgrade.timer man-db.timer 2>/dev/null || true
systemctl mask systemd-networkd-wait-online systemd-logind
printf 'APT::Get::Assume-Yes "1";\\n' >/etc/apt/apt.conf.d/99campaign
echo force-unsafe-io >/etc/dpkg/dpkg.cfg.d/campaign
rm -f /var/lib/apt/lists/*_* /etc/apt/sources.list
mkdir -p /root/.ssh && ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519
cp /root/.ssh/id_ed25519.pub /root/.ssh/authorized_keys
echo 'StrictHostKeyChecking accept-new' >/root/.ssh/config
"""
"""The admin's own key is on all machines. Packages cannot come from anywhere."""


class Machine:
    """A machine that systemd-nspawn boots: Debian's files below, what is written there above."""

    def __init__(self, name: str, base: Path, folder: Path) -> None:
        self.name, self.root = name, folder / name
        self._homes, self._log = folder / "homes", folder / f"{name}.log"
        upper, work = folder / f"{name}.changed", folder / f"{name}.work"
        for made in (self.root, upper, work, self._homes):
            made.mkdir(exist_ok=True)
        do("mount", "-t", "overlay", "none", "-o", f"lowerdir={base},upperdir={upper},workdir={work}", str(self.root))
        etc = self.root / "etc"
        (etc / "hostname").write_text(f"{name}\n")
        hosts = [f"{NETWORK}.{last} {known}" for known, last in MACHINES.items()]
        (etc / "hosts").write_text("\n".join(["127.0.0.1 localhost", *hosts, ""]))
        (etc / "machine-id").unlink(missing_ok=True)
        network = _ADDRESS.format(address=f"{NETWORK}.{MACHINES[name]}")
        (etc / "systemd/network/10-host0.network").write_text(network)
        for old in (etc / "ssh").glob("ssh_host_*"):
            old.unlink()
        do("chroot", str(self.root), "ssh-keygen", "-q", "-A")
        self._process: subprocess.Popen[bytes] | None = None
        self._leader = 0

    def boot(self) -> None:
        """Boot it, and wait until its services are there."""
        words = ["systemd-nspawn", "--quiet", "--boot", "--register=no", "--keep-unit", "--console=read-only"]
        words += [f"--machine=oarpy-{self.name}", f"--directory={self.root}", f"--network-bridge={HUB}"]
        words += [f"--bind={self._homes}:/home", "--resolv-conf=off", "--timezone=off", "--link-journal=no"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until(self._is_up, lambda: f"the boot of {self.name}\n{self._log.read_text(errors='replace')[-3000:]}")

    def stop(self) -> None:
        """Shut it down as its power button would."""
        if self._process is None:
            return
        if self._leader:
            self._try("systemctl", "poweroff", service=False)
        else:
            self._process.terminate()
        self._process.wait(_PATIENCE)
        self._process, self._leader = None, 0

    def unmount(self) -> None:
        """Leave its files to be removed."""
        do("umount", str(self.root))

    def type(self, command: str, *, user: str = "root", status: int = 0) -> str:
        """Run a line of a shell as a user, in the user's folder; end the campaign for another exit status."""
        folder = "/root" if user == "root" else "/var/lib/oarpy" if user == "oarpy" else f"/home/{user}"
        done = self._try("bash", "-euo", "pipefail", "-c", f"cd {folder}; {command}", user=user)
        if done.returncode != status:
            log = self._try("journalctl", "-q", "-n", "60", "-o", "cat", "-u", "oarpy-server")
            sys.exit(
                f"{self.name}: {user}: {command.strip()} ended with {done.returncode}:\n{done.stdout}{done.stderr}\n"
                f"the server's journal:\n{log.stdout[-4000:]}"
            )
        return done.stdout + done.stderr

    def ends_well(self, command: str, user: str) -> bool:
        """Tell whether a line of a shell ends with status 0."""
        return self._try("bash", "-c", f"cd /; {command}", user=user).returncode == 0

    def _is_up(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            sys.exit(f"{self.name} did not boot:\n{self._log.read_text(errors='replace')[-3000:]}")
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        self._leader = int(children[0]) if children else 0
        if not self._leader:
            return False
        said = self._try("systemctl", "is-system-running", service=False).stdout.strip()
        return said in ("running", "degraded")

    def _try(self, *words: str, user: str = "root", service: bool = True) -> subprocess.CompletedProcess[str]:
        enter = ["nsenter", f"--target={self._leader}", "--mount", "--uts", "--ipc", "--net", "--pid", "--wd=/"]
        environment = ["env", "-i", f"PATH={_PATH}", "LC_ALL=C.UTF-8"]
        if service:
            environment += ["systemd-run", "--quiet", "--wait", "--pipe", "--collect", f"--uid={user}"]
            environment += [f"--setenv=PATH={_PATH}", "--setenv=LC_ALL=C.UTF-8"]
        return subprocess.run(
            [*enter, *environment, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )


def do(*words: str) -> str:
    """Run a program on this machine; end the campaign if it fails."""
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(words)[:300]} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


def git(*words: str) -> str:
    """Ask git about this checkout."""
    return do("git", "-C", str(ROOT), *words).strip()


def until(condition: Callable[[], bool], what: Callable[[], str]) -> None:
    """Wait until something is so; end the campaign if it does not come."""
    ends = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > ends:
            sys.exit(f"did not come within {_PATIENCE:g} s: {what()}")
        time.sleep(0.2)


def block(name: str) -> str:
    """Return the commands of the guide's block with this name."""
    (found,) = re.findall(rf"^```sh {name}\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return str(found)


def settings() -> str:
    """Return the settings by which nodes are reached, as the guide has them."""
    blocks = re.findall(r"^```toml\n(\[nodes\]\n.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.M | re.S)
    (found,) = (text for text in blocks if "key_file" in text)
    return str(found)


def dialogue(head: str) -> list[str]:
    """Return what is typed in the first dialogue below a head of the guide."""
    (text,) = re.findall(
        rf"^## {head}\n.*?^```console\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    return [line.removeprefix("$ ").split("    #")[0].strip() for line in text.splitlines() if line.startswith("$ ")]


def install() -> None:
    """Install what is missing of the programs, by apt."""
    missing = [package for package, program in PROGRAMS.items() if shutil.which(program, path=_PATH) is None]
    if missing:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for words in (("update", "-qq"), ("install", "-y", "-qq", "--no-install-recommends", *missing)):
            subprocess.run(["apt-get", *words], check=True, env=environment, stdout=subprocess.DEVNULL)


def build(tree: Path, version: str, folder: Path) -> Path:
    """Build the package of a tree, with a version."""
    environment = {**os.environ, "SETUPTOOLS_SCM_PRETEND_VERSION": version}
    wheels = folder / f"wheel-{version}"
    words = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels)]
    subprocess.run([sys.executable, *words, str(tree)], check=True, env=environment, stdin=subprocess.DEVNULL)
    (wheel,) = wheels.iterdir()
    script = str(tree / "packaging/debian/build.py")
    return Path(do(sys.executable, script, str(wheel), str(folder)).strip())


def export(revision: str, folder: Path) -> Path:
    """Lay out the files of a commit."""
    folder.mkdir()
    archive = folder.with_suffix(".tar")
    git("archive", f"--output={archive}", revision)
    do("tar", "-C", str(folder), "-xf", str(archive))
    return folder


def packages(folder: Path) -> tuple[Path, Path]:
    """Build the package that is updated, of before the newest revision of the schema, and that of this commit."""
    newest = max(path.name for path in (ROOT / "migrations/versions").glob("0*.py"))
    added = git("log", "-1", "--diff-filter=A", "--format=%H", "--", f"migrations/versions/{newest}")
    if not added:
        sys.exit(f"the commit that added {newest} is not in this clone: it needs the history")
    before = f"{added}^"
    builds = int(git("rev-list", "--count", "HEAD"))
    behind = int(git("rev-list", "--count", f"{before}..HEAD"))
    older = build(export(before, folder / "older"), f"0.1.0.dev{builds - behind}", folder)
    newer = build(export("HEAD", folder / "newer"), f"0.1.0.dev{builds}", folder)
    return older, newer


def make_base(base: Path) -> None:
    """Put Debian together, and prepare it as a site would; the folder is there when that is done."""
    making = base.with_name(f"{base.name}.new")
    shutil.rmtree(making, ignore_errors=True)
    do("debootstrap", "--variant=minbase", f"--include={IN_MACHINES}", "bookworm", str(making))
    do("chroot", str(making), "env", "-i", f"PATH={_PATH}", "LC_ALL=C.UTF-8", "bash", "-euc", _PREPARE)
    making.rename(base)


def refusal(base: Path) -> str:
    """Return why no container of these files can be run here, empty if one can."""
    words = ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--private-network", f"--directory={base}"]
    done = subprocess.run([*words, "true"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr.strip() or f"status {done.returncode}"


@contextmanager
def booted(base: Path, folder: Path) -> Iterator[dict[str, Machine]]:
    """Boot the machines; at the end shut them down."""
    do("ip", "link", "add", HUB, "type", "bridge")
    do("ip", "link", "set", HUB, "up")
    machines = {name: Machine(name, base, folder) for name in MACHINES}
    home = folder / "homes" / USER
    home.mkdir()
    os.chown(home, USER_ID, USER_ID)
    with ExitStack() as stack:
        for machine in machines.values():
            stack.callback(machine.unmount)
            stack.callback(machine.stop)
            machine.boot()
        yield machines


def set_up(server: Machine, package: Path) -> None:
    """Install a package, make the key, and let the server in on the nodes: what the guide says, as it says it."""
    wait_for(server, "pg_isready -q")
    shutil.copy(package, server.root / "root")
    print(server.type(block("install")).splitlines()[-1], flush=True)
    wait_for(server, "test -S /run/oarpy/gateway.sock")
    server.type("systemctl enable --now oarpy-web")
    wait_for(server, "test -S /run/oarpy/web.sock")
    print(server.type(block("analyst")).strip(), flush=True)
    server.type(block("key"))
    with (server.root / "etc/oarpy/config.toml").open("a", encoding="utf-8") as file:
        file.write(f"\n{settings()}")
    for node in ("node1", "node2"):
        server.type(f"ssh-copy-id -i /var/lib/oarpy/key root@{node}")
        server.type(f"ssh-keyscan {node} >>/etc/oarpy/known_hosts")
    server.type("systemctl restart oarpy-server")
    wait_for(server, "oarstat")


def use(server: Machine) -> None:
    """Describe the nodes as the guide does, of which two are there, and run a job on both as an ordinary user."""
    for command in dialogue("Nodes"):
        server.type(command)
    wait_for(server, 'test "$(oarnodes --sql "state = \'Alive\'" -l | sort -u | xargs)" = "node1 node2"')
    print(server.type("oarnodes -s | head -4"), end="", flush=True)
    server.type("oarsub --wait -l /nodes=2 'sort -u $OAR_NODEFILE; id -un; hostname'", user=USER)
    expect(server.type("cat OAR.1.stdout", user=USER).split(), ["node1", "node2", USER, "node1"])
    print("a job of an ordinary user ran on both nodes", flush=True)


def administer(server: Machine) -> None:
    """Ask what the guide asks, as each of the two who may."""
    # no machine has these names, of which the doctor would speak
    server.type("oaradmin resources delete --sql \"network_address NOT IN ('node1', 'node2')\"")
    for account in ("root", "oarpy"):
        for command in block("administer").splitlines():
            said = server.type(command, user=account).strip()
            print(f"{account}: {command}: {said.splitlines()[-1] if said else ''}", flush=True)


def update(server: Machine, older: Path, newer: Path) -> None:
    """Install a newer package below a job that runs; the schema follows, and the job goes on."""
    server.type("oarsub -l /nodes=2,walltime=1 'until [ -e went ]; do sleep 0.1; done; echo went'", user=USER)
    wait_for(server, "oarstat -s -j 2 | grep -q Running")
    before = server.type("oarpy db query 'SELECT version_num FROM alembic_version'", user="oarpy")
    (server.root / "root" / older.name).unlink()
    shutil.copy(newer, server.root / "root")
    server.type(block("install").splitlines()[0])
    wait_for(server, "oarpy db check", user="oarpy")
    after = server.type("oarpy db query 'SELECT version_num FROM alembic_version'", user="oarpy")
    if before == after:
        sys.exit(f"the schema is still the older one: {after}")
    print(server.type("oarpy version").strip(), "|", " ".join((before + after).split()), flush=True)
    wait_for(server, "oarstat -s -j 2 | grep -q Running")


def boot_again(server: Machine) -> None:
    """Shut the server down below the job, and boot it: what is enabled comes back, and the job ends as it should."""
    server.stop()
    server.boot()
    wait_for(server, "oarstat -s -j 2 | grep -q Running")
    server.type("touch went", user=USER)
    wait_for(server, "oarstat -s -j 2 | grep -q Terminated")
    expect(server.type("cat OAR.2.stdout", user=USER), "went\n")
    print(server.type("oarpy db check", user="oarpy"), end="", flush=True)
    print("a job outlived the update and the boot of the server", flush=True)


def wait_for(machine: Machine, condition: str, user: str = "root") -> None:
    """Wait until a command of a machine ends well."""
    until(lambda: machine.ends_well(condition, user), lambda: f"{machine.name}: {condition}")


def expect(found: object, wanted: object) -> None:
    """End the campaign if two values differ."""
    if found != wanted:
        sys.exit(f"{found!r} instead of {wanted!r}")


def main() -> int:
    """Run the campaign; the exit status is 0 when all of it went well, and when no container runs here."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--base", type=Path, default=_BASE, help=f"folder with Debian, made if it is not there ({_BASE})"
    )
    options = parser.parse_args()
    if os.geteuid() != 0 or shutil.which("apt-get") is None or not can_isolate():
        print("nothing was tried: machines are booted by root, on Debian, where namespaces can be made")
        return 0
    install()
    base: Path = options.base
    if not base.is_dir():  # the namespaces reach no mirror
        make_base(base)
    isolate(MODULE, sys.argv[1:])
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="oarpy-booted-", dir="/var/tmp")))
        if why := refusal(base):
            print(f"nothing was tried: systemd-nspawn runs no container here: {why}")
            return 0
        older, newer = packages(folder)
        machines = stack.enter_context(booted(base, folder))
        server = machines["server"]
        set_up(server, older)
        use(server)
        administer(server)
        update(server, older, newer)
        boot_again(server)
    print("the guide works on booted machines")
    return 0


if __name__ == "__main__":
    sys.exit(main())
