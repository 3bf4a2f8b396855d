"""The examples in docstrings of the pure parts are true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

PACKAGES = ("oarpy.model", "oarpy.scheduler", "oarpy.admission", "oarpy.simulation", "oarpy.wire", "oarpy.client")


def modules() -> list[str]:
    return [
        module.name
        for package in PACKAGES
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}.")
        if not module.ispkg
    ]


@pytest.mark.parametrize("name", modules())
def test_examples_are_true(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
