"""Users of the machine, made for tests."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def ordinary_users(*words: str, shell: str = "/bin/sh") -> Iterator[list[pwd.struct_passwd]]:
    """Make a user for each word, who has no password and is not locked; skip the test where that is not possible."""
    programs = [shutil.which(name, path="/usr/sbin:/sbin:/usr/bin") for name in ("useradd", "userdel")]
    if None in programs:
        pytest.skip("no useradd and userdel to make a user with")
    names = [f"oarpy-{word}-{os.getpid()}" for word in words]
    for name in names:
        add = [str(programs[0]), "--no-create-home", "--home-dir", "/", "--shell", shell, "-p", "*", name]
        subprocess.run(add, check=True, capture_output=True)
    yield [pwd.getpwnam(name) for name in names]
    for name in names:
        subprocess.run([str(programs[1]), name], check=True, capture_output=True)
