"""The version of a build is that of its commit, so that a later build replaces an earlier one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from packaging.version import Version

from tests.architecture.test_contracts import script
from tests.harness.bare_environment import bare_environment
from tests.packaging.installation import ROOT

debian = script("debian/build")
WITHOUT_TAG = "0.1.0.dev0"
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@localhost", "-c", "init.defaultBranch=main")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with one commit: what the version is read from."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name in ("pyproject.toml", ".gitattributes", ".git_archival.txt"):
        shutil.copy(ROOT / name, folder / name)
    git(folder, "init")
    git(folder, "add", ".")
    git(folder, "commit", "--message=first")
    return folder


def git(folder: Path, *words: str) -> None:
    subprocess.run([*GIT, *words], cwd=folder, env=bare_environment(), check=True, capture_output=True)


def version(folder: Path) -> str:
    """What a build in ``folder`` would be."""
    done = subprocess.run(
        [sys.executable, "-m", "setuptools_scm"], cwd=folder, env=bare_environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def archived(folder: Path, place: Path) -> Path:
    """The files of the last commit, as an archive has them: without git."""
    place.mkdir()
    git(folder, "archive", f"--output={place}.tar", "HEAD")
    shutil.unpack_archive(f"{place}.tar", place)
    return place


def test_a_later_commit_builds_a_later_version(checkout: Path) -> None:
    """Before the tag, at it, and after it; pip and dpkg both take the later one as an update."""
    versions = [version(checkout)]
    for commit in ("second", "third"):
        git(checkout, "commit", "--allow-empty", f"--message={commit}")
        versions.append(version(checkout))
    git(checkout, "tag", "v0.1.0")
    versions.append(version(checkout))
    git(checkout, "commit", "--allow-empty", "--message=fourth")
    versions.append(version(checkout))
    assert versions == ["0.1.0.dev1", "0.1.0.dev2", "0.1.0.dev3", "0.1.0", "0.1.1.dev1"]
    assert all(Version(earlier) < Version(later) for earlier, later in pairwise(versions))
    if shutil.which("dpkg"):
        packages = [debian.debian_version(Path(f"oarpy_scheduler-{one}-py3-none-any.whl")) for one in versions]
        for earlier, later in pairwise(packages):
            subprocess.run(["dpkg", "--compare-versions", earlier, "lt", later], check=True)


def test_sources_without_history_have_a_version_too(checkout: Path, tmp_path: Path) -> None:
    """An archive knows the tags before it; one from before the first tag is older than any commit's build."""
    assert version(archived(checkout, tmp_path / "before")) == WITHOUT_TAG
    git(checkout, "tag", "v0.1.0")
    git(checkout, "commit", "--allow-empty", "--message=second")
    assert version(archived(checkout, tmp_path / "after")) == "0.1.1.dev1"


def test_an_image_is_built_with_the_version_it_is_told(checkout: Path, tmp_path: Path) -> None:
    """``docker-compose.yml`` hands the argument on; without it the image is built as sources without history are."""
    place = archived(checkout, tmp_path / "image")
    name = "SETUPTOOLS_SCM_PRETEND_VERSION_FOR_OARPY_SCHEDULER"
    assert f"ENV {name}=$OARPY_VERSION" in (ROOT / "packaging/docker/Dockerfile").read_text(encoding="utf-8")
    for told, found in (("0.1.0.dev7", "0.1.0.dev7"), ("", WITHOUT_TAG)):
        done = subprocess.run(
            [sys.executable, "-m", "setuptools_scm"],
            cwd=place,
            env=bare_environment(**{name: told}),
            capture_output=True,
            text=True,
        )
        assert done.stdout.strip() == found, done.stderr
