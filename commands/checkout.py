"""The folder ``research/`` beside ``oarpy/``, which only a checkout of the sources has."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import oarpy
from oarpy.model.errors import UsageError


def research(name: str) -> ModuleType:
    """Return a module of ``research/``. Raises :class:`UsageError` where there is no checkout, or a library lacks."""
    checkout = Path(oarpy.__file__).resolve().parent.parent
    if not (checkout / "research" / "__init__.py").exists():
        raise UsageError("experiments and measurements are not installed", hint="run this in a checkout of oarpy")
    if str(checkout) not in sys.path:
        sys.path.append(str(checkout))
    try:
        return import_module(f"research.{name}")
    except ModuleNotFoundError as error:
        raise UsageError(f"this needs the package {error.name}", hint="pip install -e '.[research]'") from None
