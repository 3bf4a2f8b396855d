"""The commands of users on this node: one script under the names of all, below the state directory."""

from __future__ import annotations

import os

from oarpy.transport.agent.programs import install_program, new_file, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from oarpy.transport.agent.programs import Modules

_SCRIPT = ".oarpy"
PROFILE = ".profile"
"""Name of the file that shells read after the profiles of the node and the user, which reset PATH on many systems."""
_PROFILE_TEXT = b'case ":$PATH:" in *":$OARPY_NODE/bin:"*) ;; *) PATH="$PATH:$OARPY_NODE/bin" ;; esac\n'


def install(directory: str, names: Sequence[str], modules: Modules, begin: str) -> None:
    """Write missing and differing files, each at once; raise ``OSError``. ``begin`` is what all commands run."""
    os.makedirs(directory, mode=0o755, exist_ok=True)
    write(os.path.join(directory, PROFILE), _PROFILE_TEXT, 0o644)
    if not install_program(directory, _SCRIPT, modules, begin):
        return
    for name in names:
        path = os.path.join(directory, name)
        if not os.path.islink(path) or os.readlink(path) != _SCRIPT:
            with new_file(path) as hidden:
                os.symlink(_SCRIPT, hidden)
