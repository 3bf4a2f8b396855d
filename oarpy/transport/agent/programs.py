"""Programs packed with their modules, which are compiled already, and installing them on a node as scripts.

A script loads only what its first module imports, from the file beside it. A Python other than the one that compiled
the modules takes their sources.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

Modules = tuple[str, dict[str, tuple[str, bytes]]]
"""The version of Python that compiled modules, and the source and the code of each by its name."""
MARSHALLED = 4
"""The format of ``marshal`` that every Python reads."""
LOADER = """
import marshal
import sys

VERSION, MODULES = PACKED
PACKAGES = {name.rpartition(".")[0] for name in MODULES}


class Packed:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in MODULES:
            return None
        # the class of importlib.machinery, which takes longer to import than most modules here
        return type(sys.__spec__)(name, Packed, origin="oarpy-agent", is_package=name in PACKAGES)

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        source, code = MODULES[module.__name__]
        known = VERSION == sys.version
        exec(marshal.loads(code) if known else compile(source, module.__name__, "exec"), module.__dict__)


sys.meta_path.insert(0, Packed)
"""
_OPENING = """\
#!{interpreter} -IS
import marshal

with open({path!r}, "rb") as file:
    PACKED = marshal.load(file)
"""
_LONGEST_INTERPRETER = 120
"""Bytes of a script's first line that every kernel reads."""


def install_program(directory: str, name: str, modules: Modules, begin: str) -> bool:
    """Write a script of this process's Python; return whether a script can name that. Raises ``OSError``.

    ``begin`` is run once the script can import ``modules``.
    """
    interpreter = sys.executable
    if not interpreter or len(interpreter) > _LONGEST_INTERPRETER or len(interpreter.split()) != 1:
        return False
    path = os.path.join(directory, f"{name}.modules")
    _write_modules(path, modules)
    text = _OPENING.format(interpreter=interpreter, path=path) + LOADER + begin
    write(os.path.join(directory, name), text.encode(), 0o755)
    return True


def _write_modules(path: str, modules: Modules) -> None:
    """Write modules as this Python compiles them, unless they are there."""
    version, packed = modules
    sources = {name: source for name, (source, _) in packed.items()}
    with contextlib.suppress(ValueError, EOFError, TypeError):
        found, there = marshal.loads(_read(path))
        if found == sys.version and {name: source for name, (source, _) in there.items()} == sources:
            return
    if version != sys.version:
        packed = {name: (source, marshal.dumps(compile(source, name, "exec"))) for name, source in sources.items()}
    write(path, marshal.dumps((sys.version, packed), MARSHALLED), 0o644)


def write(path: str, content: bytes, mode: int) -> None:
    """Write a missing or different file at one stroke; raise ``OSError``."""
    if _read(path) != content:
        with new_file(path) as hidden:
            fd = os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)
            with open(fd, "wb") as file:
                file.write(content)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


@contextlib.contextmanager
def new_file(path: str) -> Iterator[str]:
    """Yield the name of a new file, which then takes the place of ``path``."""
    hidden = f"{path}.{os.getpid()}"
    try:
        yield hidden
        os.rename(hidden, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(hidden)
        raise
