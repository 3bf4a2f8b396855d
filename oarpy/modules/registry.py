"""The modules by name, and how one is run: once by hand, or for ever as a process of its own."""

from __future__ import annotations

import os
import pkgutil
import sys
from collections.abc import Callable
from operator import attrgetter

from oarpy import slices
from oarpy.configuration import Configuration
from oarpy.model.errors import NotFound
from oarpy.modules.loop.logging import configure_logging
from oarpy.modules.loop.module import Loop, Module
from oarpy.modules.loop.parent import die_with_supervisor
from oarpy.modules.loop.watchdog import SignsOfLife
from oarpy.store.database import database_dsn

MODULES = {
    "automaton": "oarpy.modules.automaton:Automaton",
    "metascheduler": "oarpy.modules.metascheduler.metascheduler:Metascheduler",
    "launcher": "oarpy.modules.launcher:Launcher",
    "canceller": "oarpy.modules.canceller:Canceller",
    "monitor": "oarpy.modules.monitor:Monitor",
    "accounting": "oarpy.modules.accounting:Accounting",
    "notifier": "oarpy.modules.notifier.notifier:Notifier",
}
"""What makes each module of a configuration. A process imports only what its module needs, so that it stays small."""

OPTIONAL = {
    "energy": "oarpy.modules.energy:EnergySaving",
    **{name: thing for name, (thing, _) in slices.MODULES.items()},
}
"""Modules that run only where the configuration enables them: ``energy``, and the modules of slices."""

_PARTS = {"metascheduler": slices.STATE_PARTS, "launcher": slices.LAUNCHER_PARTS}
"""What slices add to a module, which imports it when it is made."""

_ENABLED: dict[str, Callable[[Configuration], object]] = {
    "energy": lambda configuration: configuration.energy.enabled or configuration.energy.reboot_command,
    **{name: attrgetter(setting) for name, (_, setting) in slices.MODULES.items()},
}

GRID_MODULES = ("mapper", "claimer", "mover", "watcher")
"""The modules of a broker of several clusters, which ``oarpy.grid.modules`` runs where ``[grid]`` enables them."""

PROGRAMS = {"gateway": "oarpy.gateway"}
"""Programs that run beside the modules with a loop of their own, each with its Python module."""


def enabled_modules(configuration: Configuration) -> list[str]:
    """Return the modules that are to run with this configuration."""
    optional = [name for name in OPTIONAL if _ENABLED[name](configuration)]
    return [*MODULES, *optional, *(GRID_MODULES if configuration.grid.enabled else ())]


def program_of(module: str) -> tuple[str, ...]:
    """Return the program of this package that runs a module, with its arguments."""
    if module in PROGRAMS:
        return (PROGRAMS[module],)
    return ("oarpy.grid.modules" if module in GRID_MODULES else "oarpy.modules", module)


def imports_of(module: str) -> tuple[str, ...]:
    """Return what the program of a module imports to run, as names of :func:`pkgutil.resolve_name`."""
    program = f"{program_of(module)[0]}.__main__"
    return tuple(filter(None, (program, (MODULES | OPTIONAL).get(module), *_PARTS.get(module, ()))))


def module_command(program: str, *arguments: str) -> list[str]:
    """Return how Python runs a program of this package, to be started in ``/``.

    ``-P``: nothing is imported from the directory that it is started in, which may be anybody's.
    """
    return [sys.executable, "-P", "-m", program, *arguments]


def module_environment(configuration: Configuration) -> dict[str, str]:
    """Return the variables by which a program started in ``/`` finds the same configuration."""
    return {"OARPY_CONFIG": os.path.abspath(configuration.path)} if configuration.path else {}


def run(name: str, configuration: Configuration, *, once: bool) -> int:
    """Run a module: once (by the instance that runs already, if one does), or until SIGTERM.

    Raises :class:`NotFound` for an unknown name.
    """
    if name in PROGRAMS and not once:
        _become(configuration, *program_of(name))
    if name in GRID_MODULES:
        _become(configuration, *program_of(name), *(["--once"] if once else []))
    known = MODULES | OPTIONAL
    if name not in known:
        names = [*known, *GRID_MODULES, *PROGRAMS]
        raise NotFound(f"no module '{name}' to be run", hint="one of " + ", ".join(names))
    return run_module(pkgutil.resolve_name(known[name]), configuration, once=once)


def _become(configuration: Configuration, program: str, *arguments: str) -> None:
    """Go on as a program of this package."""
    os.environ.update(module_environment(configuration))
    os.chdir("/")
    words = module_command(program, *arguments)
    os.execv(words[0], words)


def run_module(make: Callable[[Configuration], Module], configuration: Configuration, *, once: bool) -> int:
    """Run a module: once (by the instance that runs already, if one does), or until SIGTERM."""
    if not once:
        die_with_supervisor()
    configure_logging(configuration.log)
    module = make(configuration)
    loop = Loop(module, database_dsn(configuration), configuration.database.connect_timeout)
    if once:
        if loop.once() is None:
            sys.stdout.write(f"the module {module.name} runs already and was told to work now\n")
    else:
        SignsOfLife().give_always()
        loop.forever()
    return 0
