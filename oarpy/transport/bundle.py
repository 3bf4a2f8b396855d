"""The agent as one program: its modules packed with a loader, sent over the channel to any Python 3.9 or newer.

Modules are compiled here once. A node whose Python is another version compiles their sources.
"""

from __future__ import annotations

import marshal
import shlex
import sys
from functools import cache, lru_cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from threading import Lock
from types import ModuleType

from oarpy import frontend, wire
from oarpy.frontend import call, node_command
from oarpy.transport import agent
from oarpy.transport.agent.programs import LOADER, MARSHALLED, Modules
from oarpy.transport.node import ChannelConfig, NodeAddress
from oarpy.wire import frames, json_values

_BOOTSTRAP = """\
import marshal, os, sys
size = int(sys.argv[1])
program = b""
while len(program) < size:
    part = os.read(0, size - len(program))
    if not part:
        sys.exit("the channel ended before the agent had arrived")
    program += part
text, PACKED, SETTINGS = marshal.loads(program)
del program, part
exec(compile(text, "oarpy-agent", "exec"))
"""
COMMAND = f"from {node_command.__name__} import main\n\nmain()\n"
"""What a command runs once it can import its modules."""
_EMPTY = ("", marshal.dumps(compile("", "empty", "exec")))
_KEPT = 8
"""Programs kept in memory: one of each kind, as nodes share settings."""
_MAKING = Lock()


@cache
def agent_modules() -> Modules:
    """Return the modules of the agent."""
    packages = {"oarpy": _EMPTY, "oarpy.transport": _EMPTY, "oarpy.frontend": _EMPTY}
    carried = {call.__name__: _modules(frontend)[call.__name__]}
    return sys.version, {**packages, **carried, **_modules(wire), **_modules(agent)}


@cache
def command_modules() -> Modules:
    """Return the modules of the commands that nodes get: those with which a command reaches the gateway."""
    words = {module.__name__: _modules(wire)[module.__name__] for module in (frames, json_values)}
    return sys.version, {"oarpy": _EMPTY, "oarpy.wire": _EMPTY, **words, **_modules(frontend)}


@cache
def _modules(package: ModuleType) -> dict[str, tuple[str, bytes]]:
    """Return the source and the code of a package, and of the packages in it, by module name."""
    root = Path(package.__path__[0])
    modules = {}
    for path in sorted(root.rglob("*.py")):
        inside = path.relative_to(root).with_suffix("").parts
        name = ".".join((package.__name__, *(inside[:-1] if path.stem == "__init__" else inside)))
        code = SourceFileLoader(name, str(path)).get_code(name)
        modules[name] = path.read_text(encoding="utf-8"), marshal.dumps(code)
    return modules


def agent_program(node: NodeAddress, config: ChannelConfig, entry: str = "service") -> bytes:
    """Return the program for the far end's Python.

    ``entry`` is the module that it runs: ``service``, ``steps.step`` or ``calls.call``.
    """
    with _MAKING:  # the threads of all channels ask at once
        return _program(node.state_directory, config.machine_root.replace("%h", node.name), config, entry)


@lru_cache(maxsize=_KEPT)
def _program(state_directory: str, machine_root: str, config: ChannelConfig, entry: str) -> bytes:
    settings: dict[str, object] = {
        "state": state_directory,
        "instance": config.instance,
        "keep_days": config.keep_days,
        "kill_patience": config.kill_patience,
        "start_patience": config.start_patience,
        "isolation": config.isolation,
        "pam_service": config.pam_service,
        "pids_limit": config.pids_limit,
        "limit_swap": config.limit_swap,
        "private_directories": config.private_directories,
        "cgroup_root": config.cgroup_root,
        "machine_root": machine_root,
        "device_rules": config.device_rules,
    }
    if entry == "service":
        adopter = f"SETTINGS = {settings!r}\n{_beginning('logins.adopter')}"
        settings["commands"] = node_command.NAMES, command_modules(), COMMAND
        if config.log_ins:
            settings["adopter"] = agent_modules(), adopter
    return marshal.dumps((LOADER + _beginning(entry), agent_modules(), settings), MARSHALLED)


def _beginning(entry: str) -> str:
    return f"from {agent.__name__}.{entry} import main\n\nmain(SETTINGS)\n"


def agent_arguments(node: NodeAddress, program: bytes) -> list[str]:
    """Return the command that receives ``program`` on its standard input and becomes the agent."""
    # -I and -S: nothing of the account's Python set-up is used; utf8: in place of the account's locale.
    return [node.python, "-I", "-S", "-X", "utf8", "-c", _BOOTSTRAP, str(len(program))]


def agent_command(node: NodeAddress, program: bytes) -> str:
    """Return :func:`agent_arguments` as one line for a remote shell."""
    return "exec " + shlex.join(agent_arguments(node, program))
