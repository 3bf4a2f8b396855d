"""Settings that cannot be meant are refused when the configuration is read, in one line."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from pathlib import Path
from typing import get_type_hints

import pytest

from oarpy.configuration import SECTIONS, is_path, load
from oarpy.model import setting_values
from oarpy.model.errors import UsageError
from oarpy.model.typed_values import from_values
from oarpy.scheduler.passes.backfilling import POLICIES

ROOT = Path(__file__).resolve().parents[3]


_PRIVATE = "nodes.private_directories: "
BAD_DIRECTORIES = [
    ("'/tmp'", f"{_PRIVATE}'/tmp' is not a list"),
    ("true", f"{_PRIVATE}True is not a list"),
    ("[1]", f"{_PRIVATE}1 is not a string"),
    ("[['/tmp']]", "is not a string"),
    ("['']", f"{_PRIVATE}'' is no plain path from /"),
    ("['tmp']", f"{_PRIVATE}'tmp' is no plain path from /"),
    ("['~/tmp']", f"{_PRIVATE}'~/tmp' is no plain path from /"),
    ("['$TMPDIR']", f"{_PRIVATE}'$TMPDIR' is no plain path from /"),
    ("['/tmp/']", f"{_PRIVATE}'/tmp/' is no plain path from /"),
    ("['//tmp']", f"{_PRIVATE}'//tmp' is no plain path from /"),
    ("['/tmp/..']", f"{_PRIVATE}'/tmp/..' is no plain path from /"),
    ("['/./tmp']", f"{_PRIVATE}'/./tmp' is no plain path from /"),
    (r'["/tmp\n/dev/shm"]', f"{_PRIVATE}'/tmp\\n/dev/shm' is no plain path from /"),
    (r'["/tmp\u0000"]', f"{_PRIVATE}'/tmp\\x00' is no plain path from /"),
    ("['/']", f"{_PRIVATE}'/' is not for files of jobs"),
    ("['/proc']", f"{_PRIVATE}'/proc' is not for files of jobs"),
    ("['/sys/fs/cgroup']", f"{_PRIVATE}'/sys/fs/cgroup' is not for files of jobs"),
    ("['/dev']", f"{_PRIVATE}'/dev' is not for files of jobs"),
    ("['/tmp', '/tmp']", f"{_PRIVATE}'/tmp' and '/tmp' are one in the other"),
    ("['/tmp', '/tmp/x']", f"{_PRIVATE}'/tmp/x' and '/tmp' are one in the other"),
    ("['/dev/shm/x', '/dev/shm']", f"{_PRIVATE}'/dev/shm' and '/dev/shm/x' are one in the other"),
    ("['/var']", f"{_PRIVATE}'/var' has nodes.state_directory, /var/lib/oarpy/node, in it"),
    ("['/var/lib/oarpy/node']", f"{_PRIVATE}'/var/lib/oarpy/node' has nodes.state_directory"),
]
"""Settings of directories of jobs' own that no job can have, with what is said about each."""

BAD_TEMPLATES = [
    ("resources = 'foo'", "elastic.resources: 'foo' in '/host={1}/foo' is no level (write name={count} or"),
    ("resources = ''", "elastic.resources: '' in '/host={1}/' is no level"),
    ("resources = '/core={0}'", "elastic.resources: level 'core' of {0} is out of range (1 to 1000000)"),
    ("resources = '/core={n}'", "elastic.resources: '{n}' of level 'core' is no count"),
    ("resources = '/host={2}/core={1}'", "elastic.resources: level named twice in '/host={1}/host={2}/core={1}'"),
    ("resources = '/state={1}'", "elastic.resources: 'state' cannot be a level of resources"),
    ("name = 'a b'", "elastic.name: 'a b' is not the beginning of a node's name, without a blank"),
    ("name = ''", "elastic.name: '' is not the beginning of a node's name, without a blank"),
    ("name = 'a,b'", "elastic.name: 'a,b' is not the beginning of a node's name, without a blank"),
    ("properties = ['x']", "elastic.properties: 'x' gives no property a value (write name=value, or name! for none)"),
    ("properties = ['mem=1', '=2']", "elastic.properties: '=2' gives no property a value"),
    ("properties = ['state=Alive']", "elastic.properties: property 'state' cannot be set with -p"),
]
"""Templates of which no elastic node can be made, with what is said about each."""


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[energy]\nkeep_alive = ['gpu = 1: two']\n", "energy.keep_alive: 'gpu = 1: two' has no number of nodes"),
        ("[energy]\nkeep_alive = ['3', 'gpu = 1']\n", "energy.keep_alive: 'gpu = 1' has no number of nodes"),
        ("[scheduler]\ntime_zone = 'Middle-earth/Shire'\n", "this machine knows no time zone 'Middle-earth/Shire'"),
        ("[scheduler]\ntime_zone = '../../etc/passwd'\n", "this machine knows no time zone '../../etc/passwd'"),
        ("[scheduler]\npolicy = 'best'\n", "policy: 'best' is not one of conservative, easy, fcfs, first_fit"),
        ("[scheduler]\nsecurity_time = -5\n", "scheduler.security_time: -5 is not a whole number, 0 or more"),
        ("[nodes]\nlost_timeout = 0\n", "nodes.lost_timeout: 0 is not a finite number of seconds above 0"),
        ("[nodes]\nport = 70000\n", "nodes.port: 70000 is not a port, 1 to 65535"),
        ("[nodes]\npam_service = '/etc/pam.d/oarpy'\n", "'/etc/pam.d/oarpy' is not a name in lower case, no path"),
        ("[nodes]\ndevice_rules = ['/dev/kfd']\n", "nodes.device_rules: '/dev/kfd' is no rule for devices"),
        ("[nodes]\ndevice_rules = ['/dev/kfd: all']\n", "nodes.device_rules: '/dev/kfd: all' is no rule for devices"),
        ("[nodes]\ndevice_rules = ['kfd: any']\n", "nodes.device_rules: 'kfd: any' is no rule for devices"),
        ("[nodes]\npids_limit = -1\n", "nodes.pids_limit: -1 is not a whole number, 0 or more"),
        ("[nodes]\nlimit_swap = 1\n", "nodes.limit_swap: 1 is not true or false"),
        ("[nodes]\nlimit_swap = '2G'\n", "nodes.limit_swap: '2G' is not true or false"),
        *((f"[nodes]\nprivate_directories = {value}\n", complaint) for value, complaint in BAD_DIRECTORIES),
        ("[jobs]\nkill_grace = inf\n", "jobs.kill_grace: inf is not a finite number of seconds, 0 or more"),
        ("[modules]\nlauncher = nan\n", "modules.launcher: nan is not a finite number of seconds above 0"),
        ("[gateway]\nsocket = 'run/s'\n", "gateway.socket: 'run/s' is not a path from / or ~"),
        (f"[gateway]\nsocket = '/{'s' * 100}'\n", "s' has 101 bytes (a socket's path has 100 at most)"),
        ("[gateway]\nworkers = 0\n", "gateway.workers: 0 is not a whole number above 0"),
        ("[priority]\nage_weight = -inf\n", "priority.age_weight: -inf is not a finite number"),
        ("[jobs]\nlogin_shell = 1\n", "jobs.login_shell: 1 is not true or false"),
        ("[submission]\nadmins = ['ann', 7]\n", "submission.admins: 7 is not a string"),
        ("[submission]\nadmins = 'ann'\n", "submission.admins: 'ann' is not a list"),
        ("[gateway]\nworkers = 2.5\n", "gateway.workers: 2.5 is not a whole number above 0"),
        (
            "[accounting]\nweights = {Disk = 1}\n",
            "accounting.weights: a key in it is not core, gpu or the name of a consumable",
        ),
        ("[accounting]\nweights = {gpu = -1}\n", "accounting.weights: a value in it is not a number from 0 to 1e9"),
        *((f"[elastic]\n{setting}\n", complaint) for setting, complaint in BAD_TEMPLATES),
        ("[nodes]\nhealth_check = 'relative'\n", "nodes.health_check: 'relative' is not a path from / or ~"),
        ("[jobs]\nprologue = 'bin/prologue'\n", "jobs.prologue: 'bin/prologue' is not a path from / or ~"),
        ("[walltime]\nmax_increase = ['1h']\n", "walltime.max_increase: '1h' is no limit of a walltime change"),
    ],
)
def test_refused(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        load({"OARPY_CONFIG": str(path)})
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_accepted(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("[energy]\nkeep_alive = ['gpu = 1: 2', ': 1']\n[scheduler]\ntime_zone = 'UTC'\n")
    assert load({"OARPY_CONFIG": str(path)}).scheduler.time_zone == "UTC"


@pytest.mark.parametrize(
    ("variable", "text", "complaint"),
    [
        ("OARPY_SCHEDULER_SECURITY_TIME", "-1", "'-1' is not a whole number, 0 or more"),
        ("OARPY_SCHEDULER_SECURITY_TIME", "soon", "'soon' is not a whole number, 0 or more"),
        ("OARPY_JOBS_LOGIN_SHELL", "yes", "'yes' is not true or false"),
        ("OARPY_MODULES_LAUNCHER", "nan", "'nan' is not a finite number of seconds above 0"),
    ],
)
def test_a_variable_that_cannot_be_meant_is_named(variable: str, text: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=f"^{variable}: {complaint}$"):
        load({variable: text, "HOME": "/nonexistent"})


def test_variables_are_read_as_what_the_setting_is() -> None:
    given = {"GATEWAY_WORKERS": "3", "JOBS_LOGIN_SHELL": "True", "JOBS_KILL_GRACE": "1.5", "SUBMISSION_ADMINS": "a,b,"}
    found = load({"HOME": "/nonexistent"} | {f"OARPY_{name}": text for name, text in given.items()})
    assert (found.gateway.workers, found.jobs.login_shell, found.jobs.kill_grace) == (3, True, 1.5)
    assert found.submission.admins == ("a", "b")
    assert found.origins["gateway.workers"] == "OARPY_GATEWAY_WORKERS"


def test_every_default_is_allowed() -> None:
    for section in SECTIONS.values():
        assert from_values(dataclasses.asdict(section), type(section)) == section


def test_the_policies_are_those_of_the_planner() -> None:
    assert set(setting_values.POLICIES) == set(POLICIES)


def test_weights_may_be_negative(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("[priority]\nage_weight = -1\n")
    assert load({"OARPY_CONFIG": str(path)}).priority.age_weight == -1


def settings_that_are_paths() -> list[str]:
    """Return ``section.key`` of each setting of a type whose ``~`` is a home."""
    return [
        f"{name}.{key}"
        for name, section in SECTIONS.items()
        for key, kind in get_type_hints(type(section), include_extras=True).items()
        if is_path(kind)
    ]


def test_homes_are_named_once_for_every_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the file, from the environment, and by default: whoever uses a setting finds no ``~``."""
    monkeypatch.setenv("HOME", "/home/ann")
    path = tmp_path / "config.toml"
    for setting in settings_that_are_paths():
        section, _, key = setting.partition(".")
        path.write_text(f'[{section}]\n{key} = "~/here"\n')
        from_file = load({"OARPY_CONFIG": str(path)})
        from_variable = load({f"OARPY_{section}_{key}".upper(): "~/here"})
        for found in (from_file, from_variable):
            assert getattr(getattr(found, section), key) == "/home/ann/here", setting
        default = getattr(SECTIONS[section], key)
        assert getattr(getattr(load({}), section), key) == default.replace("~", "/home/ann"), setting


def test_what_names_a_file_is_a_path() -> None:
    """What the page of settings calls a file, a folder, a path or a program is of a type whose ``~`` is a home."""
    described = tomllib.loads((ROOT / "docs" / "settings.toml").read_text(encoding="utf-8"))
    named = {
        f"{section}.{key}"
        for section, keys in described.items()
        for key, text in keys.items()
        if re.match(r"(File|Folder|Path|Program|Private key)\b", text)
    }
    assert len(named) > 8
    # a path of an URL
    assert named - {"web.root_path"} <= set(settings_that_are_paths())


@pytest.mark.parametrize(
    ("variable", "hint"),
    [
        ("OARPY_DATABSE_URL", "OARPY_DATABASE_URL?"),
        ("OARPY_SCHEDULER_SECURITY", "OARPY_SCHEDULER_SECURITY_TIME?"),
        ("OARPY_NODES_FOO", "OARPY_NODES_"),
        ("OARPY_QQQQQQ", "docs/configuration.md lists them"),
    ],
)
def test_a_variable_that_is_no_setting_is_refused(variable: str, hint: str) -> None:
    with pytest.raises(UsageError) as refused:
        load({variable: "1"})
    assert refused.value.message == f"no setting is called {variable} in the environment"
    assert refused.value.hint is not None
    assert hint in refused.value.hint


def test_variables_that_mean_something_else_are_let_pass() -> None:
    """In a job, below a server, in a test."""
    passed = ("OARPY_JOB", "OARPY_NODE", "OARPY_DEBUG", "OARPY_SUPERVISOR", "OARPY_UMASK", "OARPY_TEST_ANYTHING")
    load({**dict.fromkeys(passed, "1"), "OARPY": "1", "OARPYX_Y": "1"})
