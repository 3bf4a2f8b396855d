"""Tools with a plugin in ``integrations/`` drive a cluster: the plugins' own tests, which would be sent along."""

from __future__ import annotations

import shutil

import pytest

from tests.integrations.conftest import CLIENTS, ROOT, Site

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("client", ["snakemake", "parsl", "aiida", "batchspawner"])
def test_its_own_tests_pass(site_with_clients: Site, client: str) -> None:
    """In an environment that has the real tool, and the plugin installed as a user installs it."""
    site = site_with_clients
    shutil.copy(ROOT / "integrations" / client / "tests" / "test_oar.py", site.folder)
    variables = {"PATH": f"{CLIENTS}:{site.environment({})['PATH']}"}
    printed = site.run(str(CLIENTS / "python"), "-m", "unittest", "-v", "test_oar", check=False, variables=variables)
    assert printed.rstrip().endswith("\nOK"), printed
