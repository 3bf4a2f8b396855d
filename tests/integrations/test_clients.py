"""Tools with a plugin in ``integrations/`` drive a cluster, and so does a client that is generated for REST."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from oarpy.local_cluster.sandbox import Sandbox
from tests.harness.waiting import until
from tests.integrations.conftest import CLIENTS, ROOT, TIMEOUT, Site

pytestmark = pytest.mark.e2e

PROGRAM = """
import sys

import httpx
from rest import Client, models
from rest.api.jobs import delete_api_v1_jobs_job_id_delete as delete
from rest.api.jobs import job_api_v1_jobs_job_id_get as show
from rest.api.jobs import jobs_api_v1_jobs_get as listing
from rest.api.jobs import why_api_v1_jobs_job_id_why_get as why
from rest.api.platform import resources_api_v1_resources_get as resources
from rest.api.submission import submit_api_v1_jobs_post as submit

client = Client("http://oarpy", httpx_args={"transport": httpx.HTTPTransport(uds=sys.argv[1])})
wish = models.JobWish(command="sleep 600", directory="/tmp", alternatives=["/nodes=1,walltime=0:20:0"])
made = submit.sync(client=client, body=wish)
assert isinstance(made, models.SubmittedDocument), made
job = show.sync(made.job_id, client=client)
assert isinstance(job, models.JobDocument), job
assert (job.job_id, job.command, job.walltime, job.exit_code) == (made.job_id, "sleep 600", 1200, None), job
page = listing.sync(client=client)
assert [(type(one), one.job_id) for one in page.items] == [(models.ListedJobDocument, made.job_id)], page
told = why.sync(made.job_id, client=client)
assert isinstance(told, models.WhyDocument) and told.sentences, told
wish.dry_run = True
foretold = submit.sync(client=client, body=wish)
assert isinstance(foretold, models.DryRunDocument) and foretold.admitted, foretold
first = resources.sync(client=client, limit=1).items[0]
assert isinstance(first, models.ResourceDocument) and first["core"] is not None, first
missing = show.sync(999999, client=client)
assert isinstance(missing, models.ErrorDocument) and missing.error.code == "not_found", missing
ended = delete.sync(made.job_id, client=client)
assert isinstance(ended, models.ActedDocument) and ended.jobs == [made.job_id], ended
"""
"""What a user of a generated client writes: every answer is an object of its type."""


@pytest.mark.parametrize("client", ["snakemake", "parsl", "aiida", "batchspawner"])
def test_its_own_tests_pass(site_with_clients: Site, client: str) -> None:
    """In an environment that has the real tool, and the plugin installed as a user installs it."""
    site = site_with_clients
    shutil.copy(ROOT / "integrations" / client / "tests" / "test_oar.py", site.folder)
    variables = {"PATH": f"{CLIENTS}:{site.environment({})['PATH']}"}
    printed = site.run(str(CLIENTS / "python"), "-m", "unittest", "-v", "test_oar", check=False, variables=variables)
    assert printed.rstrip().endswith("\nOK"), printed


def test_a_client_for_rest_is_generated_from_its_description(site_with_clients: Site) -> None:
    site = site_with_clients
    config = site.folder / "config.json"
    config.write_text(json.dumps({"post_hooks": []}), "utf-8")
    site.run(
        str(CLIENTS / "openapi-python-client"),
        *("generate", "--path", str(ROOT / "docs" / "openapi.json"), "--meta", "none", "--fail-on-warning"),
        *("--output-path", str(site.folder / "rest"), "--config", str(config)),
    )
    program, socket = site.folder / "program.py", site.folder / "web.sock"
    program.write_text(PROGRAM, "utf-8")
    variables = {**site.environment({}), "OARPY_GATEWAY_SOCKET": "", "OARPY_SUBMISSION_REFUSED_USERS": "nobody"}
    with subprocess.Popen(
        [str(Path(sys.executable).parent / "oarpy"), "web", "--listen", str(socket)], env=variables
    ) as web:
        try:
            until(lambda: socket.exists() or web.poll() is not None, "the socket")
            site.run(str(CLIENTS / "python"), str(program), str(socket))
        finally:
            web.send_signal(signal.SIGTERM)
            web.wait(60)


def test_the_adapter_of_open_ondemand(request: pytest.FixtureRequest) -> None:
    """Against ood_core's own classes: a gem, or the folder ``lib`` of its sources that OARPY_TEST_OOD_CORE names."""
    ruby, plugin = shutil.which("ruby"), ROOT / "integrations" / "open_ondemand"
    if ruby is None:
        pytest.skip("no ruby")
    words = [ruby, "-I", str(plugin / "lib")]
    words += ["-I", sources] if (sources := os.environ.get("OARPY_TEST_OOD_CORE")) else []
    asked = [*words, "-e", "require 'minitest'; require 'ood_core/version'"]
    if subprocess.run(asked, capture_output=True, check=False).returncode != 0:
        pytest.skip("no ood_core: gem install ood_core, or OARPY_TEST_OOD_CORE=.../ood_core/lib")
    cluster: Sandbox = request.getfixturevalue("cluster")
    done = subprocess.run(
        [*words, str(plugin / "tests" / "test_oarpy.rb")],
        env=cluster.environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert (done.returncode, " 0 failures, 0 errors, 0 skips" in done.stdout) == (0, True), done.stdout + done.stderr
