"""The agent as one text: its modules packed with a loader, sent over the channel to any Python 3.9 or newer."""

from __future__ import annotations

import shlex
from functools import cache
from pathlib import Path
from types import ModuleType

from oarpy import frontend, wire
from oarpy.frontend import call, node_command
from oarpy.transport import agent
from oarpy.transport.node import ChannelConfig, NodeAddress
from oarpy.wire import frames, json_values

_BOOTSTRAP = """\
import os, sys
size = int(sys.argv[1])
text = b""
while len(text) < size:
    part = os.read(0, size - len(text))
    if not part:
        sys.exit("the channel ended before the agent had arrived")
    text += part
exec(compile(text, "oarpy-agent", "exec"))
"""

_LOADER = """
import sys
from importlib.machinery import ModuleSpec


class Packed:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in SOURCES:
            return None
        package = any(other.startswith(name + ".") for other in SOURCES)
        return ModuleSpec(name, Packed, origin="oarpy-agent", is_package=package)

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        exec(compile(SOURCES[module.__name__], "oarpy-agent/" + module.__name__, "exec"), module.__dict__)


sys.meta_path.insert(0, Packed)
"""


@cache
def agent_sources() -> dict[str, str]:
    """Return the sources of the agent by module name."""
    sources = {"oarpy": "", "oarpy.transport": "", "oarpy.frontend": ""}
    sources[call.__name__] = _modules(frontend)[call.__name__]
    return {**sources, **_modules(wire), **_modules(agent)}


@cache
def command_script() -> str:
    """Return the program of the commands that nodes get: the modules with which a command reaches the gateway."""
    words = {module.__name__: _modules(wire)[module.__name__] for module in (frames, json_values)}
    sources = {"oarpy": "", "oarpy.wire": "", **words, **_modules(frontend)}
    return f"SOURCES = {sources!r}\n{_LOADER}from {node_command.__name__} import main\n\nmain()\n"


def _modules(package: ModuleType) -> dict[str, str]:
    """Return the sources of a package, and of the packages in it, by module name."""
    root = Path(package.__path__[0])
    sources = {}
    for path in sorted(root.rglob("*.py")):
        inside = path.relative_to(root).with_suffix("").parts
        parts = inside[:-1] if path.stem == "__init__" else inside
        sources[".".join((package.__name__, *parts))] = path.read_text(encoding="utf-8")
    return sources


def agent_program(node: NodeAddress, config: ChannelConfig, entry: str = "service") -> bytes:
    """Return the program for the far end's Python.

    ``entry`` is the module that it runs: ``service``, ``steps.step`` or ``calls.call``.
    """
    settings: dict[str, object] = {
        "state": node.state_directory,
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
        "machine_root": config.machine_root.replace("%h", node.name),
        "device_rules": config.device_rules,
    }
    if entry == "service":
        adopter = _program("logins.adopter", settings) if config.log_ins else ""
        settings |= {"commands": (node_command.NAMES, command_script()), "adopter": adopter}
    return _program(entry, settings).encode()


def _program(entry: str, settings: dict[str, object]) -> str:
    begin = f"from {agent.__name__}.{entry} import main\n\nmain(SETTINGS)\n"
    return f"SOURCES = {agent_sources()!r}\nSETTINGS = {settings!r}\n{_LOADER}{begin}"


def agent_arguments(node: NodeAddress, program: bytes) -> list[str]:
    """Return the command that receives ``program`` on its standard input and becomes the agent."""
    # -I and -S: nothing of the account's Python set-up is used; utf8: in place of the account's locale.
    return [node.python, "-I", "-S", "-X", "utf8", "-c", _BOOTSTRAP, str(len(program))]


def agent_command(node: NodeAddress, program: bytes) -> str:
    """Return :func:`agent_arguments` as one line for a remote shell."""
    return "exec " + shlex.join(agent_arguments(node, program))
