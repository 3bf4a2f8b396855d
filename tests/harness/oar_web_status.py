"""Debian's package oar-web-status, Monika and DrawGantt-SVG as they are, run on a database of a test."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlencode

from psycopg.conninfo import conninfo_to_dict

from tests.harness.bare_environment import bare_environment

PACKAGE = Path("/usr/local/lib/oar-web-status")
"""Where ``make services`` unpacks it."""
_MONIKA = PACKAGE / "usr/lib/cgi-bin/monika.cgi"
_DRAWGANTT = PACKAGE / "usr/share/oar-web-status/drawgantt-svg/drawgantt-svg.php"
_PERL = ("CGI", "DBD::Pg", "AppConfig", "Tie::IxHash", "Sort::Naturally")


def missing() -> str:
    """Return why it cannot run here, empty if it can."""
    if not _MONIKA.exists() or not _DRAWGANTT.exists():
        return f"oar-web-status is not in {PACKAGE}: as root on Debian, make services unpacks it"
    if shutil.which("php-cgi") is None or shutil.which("perl") is None:
        return "php-cgi or perl is missing: as root on Debian, make services installs them"
    modules = [word for name in _PERL for word in (f"-M{name}",)]
    if subprocess.run(["perl", *modules, "-e", "1"], capture_output=True, check=False).returncode:
        return "modules of Perl are missing: as root on Debian, make services installs them"
    modules_of_php = subprocess.run(["php-cgi", "-q", "-m"], capture_output=True, text=True, check=False).stdout
    return "" if "pgsql" in modules_of_php else "php-pgsql is missing: as root on Debian, make services installs it"


class WebStatus:
    """Both programs, which read as ``role``. The server of tests lets in its owner only, who then takes the role."""

    def __init__(self, dsn: str, role: str, folder: Path) -> None:
        given = conninfo_to_dict(dsn)
        self._host, self._database, self._user = given["host"], given["dbname"], given["user"]
        # a role's own settings count when it logs in
        self._options = f"-c role={role} -c search_path=oar_compat -c default_transaction_read_only=on"
        self._folder = folder

    def monika(self, **query: str) -> str:
        """Return the page of Monika."""
        conf = self._folder / "monika.conf"
        conf.write_text(
            f"hostname = {self._host}\ndbport = 5432\ndbtype = psql\ndbname = {self._database}\n"
            f"username = {self._user}\npassword = none\nnodes_synonym = network_address\n"
            "summary_display = default:nodes_synonym,resource_id\n"
            "nodename_regex = (.+)\nnodename_regex_display = (.*)\n"
            'set_color Free = "#ffffff"\nset_color Absent = "#c22200"\nset_color Down = "red"\n'
            'set_color Suspected = "#ff7b7b"\ncolor_pool = "#9999ff"\n',
            encoding="utf-8",
        )
        command = ["perl", f"-I{PACKAGE / 'usr/share/perl5'}", str(_MONIKA)]
        return self._page(command, {"conf": str(conf), **query}, str(_MONIKA))

    def drawgantt(self, begin: float, end: float) -> str:
        """Return the SVG of DrawGantt between two dates, epoch seconds."""
        conf = self._folder / "drawgantt-config.inc.php"
        conf.write_text(
            f"<?php $CONF['db_server']='{self._host}'; $CONF['db_port']='5432'; $CONF['db_name']='{self._database}';"
            f" $CONF['db_user']='{self._user}'; $CONF['db_passwd']='none'; ?>",
            encoding="utf-8",
        )
        before = self._folder / "before.php"
        before.write_text(f"<?php define('CONFIG_DIR', '{self._folder}'); ?>", encoding="utf-8")
        command = ["php-cgi", "-d", f"auto_prepend_file={before}", "-d", "display_errors=0", "-d", "log_errors=0"]
        return self._page(command, {"start": f"{begin:.0f}", "stop": f"{end:.0f}"}, str(_DRAWGANTT))

    def _page(self, command: list[str], query: dict[str, str], script: str) -> str:
        environment = bare_environment(
            PATH=os.environ["PATH"],
            TZ="UTC",
            PGOPTIONS=self._options,
            REQUEST_METHOD="GET",
            GATEWAY_INTERFACE="CGI/1.1",
            REDIRECT_STATUS="200",
            SERVER_PROTOCOL="HTTP/1.1",
            SCRIPT_NAME=f"/{Path(script).name}",
            SCRIPT_FILENAME=script,
            QUERY_STRING=urlencode(query),
        )
        done = subprocess.run(command, env=environment, cwd=self._folder, capture_output=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr.decode()
        head, page = re.split(rb"\r?\n\r?\n", done.stdout, maxsplit=1)
        assert b"content-type" in head.lower(), head
        return (gzip.decompress(page) if b"gzip" in head.lower() else page).decode()
