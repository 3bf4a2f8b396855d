"""Build the Debian package: build.py WHEEL FOLDER

The package has an environment of its own, /usr/lib/oarpy, on Debian's Python. It holds the wheel, and what that depends
on as it is installed in the environment that runs this script: the versions that the tests ran with. Prints the file.
"""

from __future__ import annotations

import compileall
import gzip
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import parse_wheel_filename

HERE = Path(__file__).resolve().parent
NAME, EXTRAS = "oarpy-scheduler", ("web",)
HOME = Path("usr/lib/oarpy")
PYTHON = Path("/usr/bin/python3")
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
SITE = HOME / "lib" / f"python{VERSION}" / "site-packages"
SYSTEMD = {
    ".service": "systemd/system",
    ".target": "systemd/system",
    "sysusers.d": "sysusers.d",
    "tmpfiles.d": "tmpfiles.d",
}
SHELLS = {
    "bash": "bash-completion/completions/{command}",
    "fish": "fish/vendor_completions.d/{command}.fish",
    "zsh": "zsh/vendor-completions/_oarpy",
}
"""Where a shell looks for the script of a command; zsh reads from the script whose it is."""


def build(wheel: Path, folder: Path) -> Path:
    """Build the package of ``wheel`` in ``folder``; return its file."""
    if run(str(PYTHON), "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip() != VERSION:
        sys.exit(f"build.py: {PYTHON} is not of version {VERSION}, for which the dependencies are installed here")
    with tempfile.TemporaryDirectory() as draft:
        root = Path(draft) / "root"
        make_environment(root, wheel)
        place_documents(root)
        describe(root, debian_version(wheel))
        run("chmod", "-R", "u+w,a+rX", str(root))
        (root / "etc/oarpy/config.toml").chmod(0o640)
        built = run("dpkg-deb", "--root-owner-group", "-Zzstd", "-z3", "--build", str(root), str(folder))
        return folder / Path(built.split("'")[-2]).name


def make_environment(root: Path, wheel: Path) -> None:
    """Make the environment on Debian's Python, with the wheel, its dependencies, and commands in /usr/bin."""
    (root / SITE).mkdir(parents=True)
    for one in closure(NAME, EXTRAS):
        copy(one, root / SITE)
    install = ("install", "--quiet", "--no-deps", "--no-index", "--no-compile", "--ignore-installed")
    run(sys.executable, "-m", "pip", *install, "--prefix", str(root / HOME), str(wheel))
    compileall.compile_dir(root / SITE / "oarpy", quiet=1, stripdir=str(root))
    (root / HOME / "pyvenv.cfg").write_text(f"home = {PYTHON.parent}\ninclude-system-site-packages = false\n")
    commands = sorted((root / HOME / "bin").iterdir())
    (root / HOME / "bin" / PYTHON.name).symlink_to(PYTHON)
    (root / "usr/bin").mkdir()
    for command in commands:
        first, _, program = command.read_text(encoding="utf-8").partition("\n")
        # those that look for their interpreter by a shell are told, and start it as they would
        options = " -S" if first == "#!/bin/sh" else ""
        command.write_text(f"#!/{HOME}/bin/{PYTHON.name}{options}\n{program}", encoding="utf-8")
        (root / "usr/bin" / command.name).symlink_to(f"/{HOME}/bin/{command.name}")


def closure(name: str, extras: tuple[str, ...]) -> Iterator[Distribution]:
    """Yield what the distribution needs with these extras, and what that needs, as it is installed here."""
    seen, todo = set[tuple[str, str]](), [(name, extra) for extra in ("", *extras)]
    while todo:
        one = todo.pop()
        if one in seen:
            continue
        if one[0] != NAME and one[0] not in {found for found, _ in seen}:
            yield distribution(one[0])
        seen.add(one)
        for needed in map(Requirement, distribution(one[0]).requires or ()):
            if needed.marker is None or needed.marker.evaluate({"extra": one[1]}):
                todo += [(needed.name.lower(), extra) for extra in ("", *needed.extras)]


def copy(one: Distribution, site: Path) -> None:
    """Copy the files of a distribution, with their compiled forms; its programs are not wanted."""
    for file in one.files or ():
        source = Path(str(file.locate()))
        if ".." not in file.parts and source.exists():
            (site / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, site / file)


def place_documents(root: Path) -> None:
    """Put units, man pages, completion and the licence where Debian has them."""
    share, installed = root / "usr/share", root / HOME / "share"
    for file in sorted((installed / "oarpy/systemd").rglob("*.*")):
        if file.is_file():
            where = SYSTEMD.get(file.parent.name) or SYSTEMD[file.suffix]
            target = root / "usr/lib" / where / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            file.rename(target)
    (share / "man/man1").mkdir(parents=True)
    for page in (installed / "man/man1").iterdir():
        (share / "man/man1" / f"{page.name}.gz").write_bytes(gzip.compress(page.read_bytes(), mtime=0))
    (share / "oarpy").mkdir()
    (installed / "oarpy/grafana").rename(share / "oarpy/grafana")
    shutil.rmtree(installed)
    (licence,) = (root / SITE).glob("oarpy_scheduler-*/licenses/LICENSE")
    (share / "doc/oarpy").mkdir(parents=True)
    shutil.copy(licence, share / "doc/oarpy/copyright")
    commands = [command.name for command in (root / "usr/bin").iterdir()]
    for shell, where in SHELLS.items():
        script = run(str(root / HOME / "bin" / PYTHON.name), str(root / HOME / "bin/oarpy"), "completion", shell)
        for path in {where.format(command=command) for command in commands}:
            (share / path).parent.mkdir(parents=True, exist_ok=True)
            (share / path).write_text(script, encoding="utf-8")


def debian_version(wheel: Path) -> str:
    """Return the version of a wheel as Debian orders it: 0.1.0~dev7 comes before 0.1.0."""
    _, version, *_ = parse_wheel_filename(wheel.name)
    return str(version).replace(".dev", "~dev")


def describe(root: Path, version: str) -> None:
    """Write what dpkg reads: the description, the scripts, and the one file of configuration."""
    (root / "etc/oarpy").mkdir(parents=True)
    shutil.copy(HERE / "config.toml", root / "etc/oarpy/config.toml")
    # KiB of files and 1 KiB for each folder, as Debian's own tools count
    size = sum(-(-entry.lstat().st_size // 1024) if entry.is_file() else 1 for entry in root.rglob("*"))
    control = root / "DEBIAN"
    control.mkdir()
    (control / "conffiles").write_text("/etc/oarpy/config.toml\n")
    for script in ("postinst", "prerm", "postrm"):
        shutil.copy(HERE / script, control / script)
        (control / script).chmod(0o755)
    major, minor = sys.version_info[:2]
    text = (HERE / "control").read_text(encoding="utf-8")
    values = {
        "version": version,
        "size": size,
        "architecture": run("dpkg", "--print-architecture").strip(),
        "python": f"python3 (>= {VERSION}), python3 (<< {major}.{minor + 1})",
    }
    (control / "control").write_text(text.format(**values), encoding="utf-8")


def run(*command: str) -> str:
    """Run a program; return its output, or end with what it complained of."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"build.py: {command[0]}: {done.stderr.strip()}")
    return done.stdout


if __name__ == "__main__":
    print(build(Path(sys.argv[1]), Path(sys.argv[2])))
