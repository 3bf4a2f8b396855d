# SPDX-License-Identifier: BSD-3-Clause
"""Runs a hub whose notebook servers are jobs: wherever ``oarsub``, JupyterHub and jupyter-server are."""

import getpass
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

TIMEOUT = 180.0
TOKEN = "of-the-tests"

CONFIGURATION = """
import batchspawner
from jupyterhub.proxy import Proxy


class NoProxy(Proxy):
    should_start = False
    routes = {}

    async def add_route(self, routespec, target, data):
        self.routes[routespec] = {"routespec": routespec, "target": target, "data": data}

    async def delete_route(self, routespec):
        self.routes.pop(routespec, None)

    async def get_all_routes(self):
        return self.routes


c.JupyterHub.proxy_class = NoProxy
c.JupyterHub.hub_bind_url = "http://127.0.0.1:%(port)d"
c.JupyterHub.db_url = "sqlite:///:memory:"
c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.password = "%(token)s"
c.Authenticator.allow_all = True
c.JupyterHub.services = [{"name": "tests", "api_token": "%(token)s"}]
c.JupyterHub.load_roles = [
    {"name": "tests", "scopes": ["admin:users", "admin:servers", "list:users"], "services": ["tests"]}
]
c.JupyterHub.spawner_class = "batchspawner_oar.OarSpawner"
c.Spawner.start_timeout = 120
c.Spawner.args = ["--allow-root"]
c.Spawner.env_keep = [*__import__("os").environ]
c.Spawner.environment = {
    f"JUPYTER_{name}_DIR": f"%(folder)s/{name}" for name in ("CONFIG", "DATA", "RUNTIME")
}
c.BatchSpawnerBase.exec_prefix = ""
c.OarSpawner.req_queue = "default"
c.OarSpawner.req_account = "lectures"
c.OarSpawner.req_nprocs = "2"
c.OarSpawner.req_runtime = "0:30:0"
c.OarSpawner.req_options = "-t idempotent"
c.OarSpawner.req_homedir = "%(folder)s"
# nodes of a cluster on this machine have names that nobody resolves
c.OarSpawner.state_exechost_exp = "127.0.0.1"
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class OARTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=".")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).absolute()
        port = free_port()
        self.hub = f"http://127.0.0.1:{port}/hub/api"
        file = self.folder / "jupyterhub_config.py"
        file.write_text(CONFIGURATION % {"port": port, "token": TOKEN, "folder": self.folder})
        self.log = (self.folder / "hub.log").open("w")
        self.addCleanup(self.log.close)
        words = [sys.executable, "-m", "jupyterhub", "-f", str(file)]
        environment = {**os.environ, "CONFIGPROXY_AUTH_TOKEN": TOKEN}
        running = subprocess.Popen(words, cwd=self.folder, stdout=self.log, stderr=self.log, env=environment)
        self.addCleanup(running.wait, TIMEOUT)
        self.addCleanup(running.terminate)
        self.until(lambda: self.answers(f"{self.hub}/"), "the hub does not answer")

    def until(self, happened, otherwise):
        deadline = time.monotonic() + TIMEOUT
        while not (found := happened()):
            if time.monotonic() > deadline:
                self.fail(f"{otherwise}\n{(self.folder / 'hub.log').read_text()}")
            time.sleep(0.3)
        return found

    def answers(self, url):
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def ask(self, method, path):
        request = urllib.request.Request(f"{self.hub}{path}", method=method, headers={"Authorization": f"token {TOKEN}"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def job(self):
        """Return what is known of the last job of this user."""
        done = subprocess.run(["oarstat", "-f", "-J", "-j", "last"], check=True, capture_output=True, text=True)
        ((_, about),) = json.loads(done.stdout).items()
        return about

    def test_a_notebook_server_is_a_job(self):
        user = f"/users/{getpass.getuser()}"
        self.ask("POST", user)
        self.ask("POST", f"{user}/server")
        server = self.until(lambda: self.ready(user), "the notebook server does not start")
        about = self.job()
        found = [about[key] for key in ("name", "queue", "project", "types", "walltime", "state")]
        self.assertEqual(found, ["spawner-jupyterhub", "default", "lectures", ["idempotent"], 1800, "Running"])
        self.assertEqual(server["state"]["job_id"], str(about["Job_Id"]))
        self.ask("DELETE", f"{user}/server")
        self.until(lambda: self.job()["state"] in ("Error", "Terminated"), "the job does not end")
        self.assertIn("FRAG_JOB_REQUEST", [event["type"] for event in self.job()["events"]])

    def ready(self, user):
        server = self.ask("GET", user)["servers"].get("")
        return server if server and server["ready"] else None


if __name__ == "__main__":
    unittest.main()
