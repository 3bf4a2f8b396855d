"""The Debian package, installed by dpkg on a copy of this machine that is thrown away, as the guide says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from oarpy.postgres.binaries import available_versions
from tests.packaging.installation import ROOT

GUIDE = ROOT / "docs" / "guides" / "admin.md"

COPY = """
mount -t tmpfs none "$1" && mkdir "$1/changed" "$1/work" "$1/root"
mkdir -p "$1/changed/var/lib" && mknod "$1/changed/var/lib/oarpy" c 0 0
mount -t overlay none -o "lowerdir=/,upperdir=$1/changed,workdir=$1/work" "$1/root"
"""
"""Mounts a copy of the root file system on ``$1/root``: what is written there goes to memory.

The device hides databases that other tests keep on the machine meanwhile.
"""

ENTER = """
mount --rbind /dev "$1/root/dev" && mount -t proc none "$1/root/proc"
mount -t tmpfs none "$1/root/run" && mount -t tmpfs -o mode=1777 none "$1/root/tmp"
cp "$2" "$3" "$1/root/tmp"
exec chroot "$1/root" env -i HOME=/root PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \\
    bash -euo pipefail -c "cd /tmp; . ./machine.sh"
"""

MACHINE = """
trap 'cat /tmp/server.log >&2' EXIT
# no systemd runs here: what is enabled is started as its unit says
cat >/usr/local/bin/systemctl <<'END'
#!/bin/bash -eu
unit=/usr/lib/systemd/system/$3.service
value() { sed -n "s/^$1=//p" "$unit"; }
mkdir -p /run/oarpy && chown oarpy: /run/oarpy
as=(runuser -u "$(value User)" -- env "$(value Environment)")
cd /
"${as[@]}" $(value ExecStartPre)
setsid "${as[@]}" $(value ExecStart) >/tmp/server.log 2>&1 &
END
chmod +x /usr/local/bin/systemctl
printf 'APT::Get::Assume-Yes "1";\\nAPT::Install-Recommends "0";\\n' >/etc/apt/apt.conf.d/99test
echo force-unsafe-io >/etc/dpkg/dpkg.cfg.d/test
rm -rf /etc/postgresql/* /var/lib/postgresql/* /etc/oarpy
test ! -e /var/lib/oarpy
pg_createcluster 15 main --start -- --no-sync >&2

{ set -x; INSTALL; } >&2
stat -c '%a %U:%G %n' /etc/oarpy /etc/oarpy/config.toml /var/lib/oarpy
systemd-analyze verify --man=no /usr/lib/systemd/system/oarpy*.service /usr/lib/systemd/system/oarpy.target 2>&1 |
    grep oarpy || echo 'units are well'
man -w oarsub
bash -c '. /usr/share/bash-completion/completions/oarstat; complete -p oarstat' | grep -o oarstat
until [ -S /run/oarpy/gateway.sock ]; do sleep 0.05; done
for command in /usr/bin/oar*; do $command --help | grep -q Usage; done
oaradmin resources add '/host=localhost/core=2' --transport local >&2
cd /var/lib/oarpy
runuser -u oarpy -- oarsub --wait 'id -un >said' >&2
oarstat -s -j 1
cat said
# root and the account of the server ask the database themselves
cat >/tmp/administer <<'END'
ADMINISTER
END
for account in root oarpy; do
    install -d -o $account /tmp/$account
    cd /tmp/$account
    while read -r command; do
        runuser -u $account -- $command >said 2>&1 </dev/null && status=0 || status=$?
        echo "$account: $command: $status"
        [ $status = 0 ] || cat said
    done </tmp/administer
done
{ ANALYST; }
runuser -u postgres -- psql -At oarpy -c "SELECT r, has_function_privilege(r, 'pg_advisory_lock(bigint)', 'EXECUTE')
    FROM unnest('{ann,oarpy}'::name[]) r"
KEY
stat -c '%a %U %n' /var/lib/oarpy/key
dpkg --purge oarpy >&2
echo /etc/oarpy* /usr/lib/oarpy* /usr/bin/oarsub* /var/lib/oarpy*
runuser -u postgres -- psql -Atc 'SELECT state FROM jobs' oarpy
"""

LEFT = """\
750 root:oarpy /etc/oarpy
640 root:oarpy /etc/oarpy/config.toml
711 oarpy:oarpy /var/lib/oarpy
units are well
/usr/share/man/man1/oarsub.1.gz
oarstat
1: Terminated
oarpy
root: oarpy db check: 0
root: oarpy doctor: 1
sockets: web.listen '/run/oarpy/web.sock' is not answered: No such file or directory (start oarpy web)
root: oarpy report 2026-11 --csv report: 0
root: oaradmin policy try --days 14 --policy easy: 0
root: oarpy db dump oarpy.dump: 0
oarpy: oarpy db check: 0
oarpy: oarpy doctor: 1
sockets: web.listen '/run/oarpy/web.sock' is not answered: No such file or directory (start oarpy web)
oarpy: oarpy report 2026-11 --csv report: 0
oarpy: oaradmin policy try --days 14 --policy easy: 0
oarpy: oarpy db dump oarpy.dump: 0
role ann made
ann|f
oarpy|t
600 oarpy /var/lib/oarpy/key
/etc/oarpy* /usr/lib/oarpy* /usr/bin/oarsub* /var/lib/oarpy
Terminated
"""
"""What the machine should say; what a shell finds no file for, it says as it is."""


def commands(name: str) -> str:
    """The block of the guide with this name."""
    (block,) = re.findall(rf"^```sh {name}\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return str(block)


def with_commands(script: str) -> str:
    """The script, with the blocks of the guide where it names them in capitals."""
    for name in ("install", "administer", "analyst", "key"):
        script = script.replace(name.upper(), commands(name).strip())
    return script


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder in which this machine can be copied; skips where it cannot."""
    folder = tmp_path_factory.mktemp("machine")
    for program in ("dpkg-deb", "apt-get", "systemd-analyze", "systemd-tmpfiles", "pg_createcluster"):
        if shutil.which(program) is None:
            pytest.skip(f"no {program} here: the package is tried on Debian, with postgresql-15 and systemd")
    if os.geteuid() != 0 or "15" not in available_versions():
        pytest.skip("a package is installed by root, beside PostgreSQL 15 of Debian (apt-get install postgresql-15)")
    done = subprocess.run(
        ["unshare", "--mount", "bash", "-euc", COPY, "copy", str(folder)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"this machine cannot be copied by an overlay: {done.stderr.strip()}")
    return folder


@pytest.mark.timeout(600)
def test_the_package_is_installed_runs_a_job_and_leaves_the_database(copied: Path, wheel: Path, tmp_path: Path) -> None:
    """``apt`` installs it, its units start the server, users find their commands, and purging it forgets no job."""
    build = [sys.executable, str(ROOT / "packaging/debian/build.py"), str(wheel), str(tmp_path)]
    built = subprocess.run(build, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    size = subprocess.run(
        ["dpkg-deb", "--field", built.stdout.strip(), "Installed-Size"], capture_output=True, text=True
    )
    assert int(size.stdout) > 100_000
    script = tmp_path / "machine.sh"
    script.write_text(with_commands(MACHINE), encoding="utf-8")
    spaces = ["timeout", "500", "unshare", "--mount", "--net", "--pid", "--fork", "--kill-child"]
    done = subprocess.run(
        [*spaces, "bash", "-euc", COPY + ENTER, "enter", str(copied), built.stdout.strip(), str(script)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.returncode) == (LEFT, 0), done.stderr
