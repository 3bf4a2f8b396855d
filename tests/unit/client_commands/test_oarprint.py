"""``oarprint``: the file of a job's resources, grouped and formatted."""

from __future__ import annotations

import io
import json
import string
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oarpy.commands.oarprint import app

from oarpy.client.boundary import execute
from oarpy.client.jobs.resource_print import grouped, lines, read_resources
from oarpy.modules.launcher.specifications import _properties_line

HINT = "(lines like: core = '3' , host = 'n1')"
FILE = """\
 core = '3' , cpu = '1' , host = 'n1' , note = 'it's , so'
core = '11' , cpu = '2' , host = 'n1'
core = '1' , cpu = '1' , host = 'n1'
core = '40' , cpu = '9' , host = 'n10'

core = '20' , cpu = '5' , host = 'n9'
"""


def oarprint(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run the command: (status, output, errors)."""
    status = execute(app, "oarprint", arguments)
    return status, *capsys.readouterr()


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "resources"
    path.write_text(FILE)
    monkeypatch.setenv("OAR_RESOURCE_PROPERTIES_FILE", str(path))


@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["host"], "n1\nn9\nn10\n"),
        (["core"], "1\n3\n11\n20\n40\n"),
        (["host", "-P", "host,cpu,core", "-F", "host: % cpu: % core: %", "-C+"], None),
        (["host", "-P", "host, core"], "n1 1,3,11\nn9 20\nn10 40\n"),
        (["host", "-P", "host,core", "-F", "@ has @ @", "-T", "@"], "n1 has 1,3,11 @\nn9 has 20 @\nn10 has 40 @\n"),
        (["host", "-P", "host,core", "-F", "only %"], "only n1\nonly n9\nonly n10\n"),
        (["host", "-F", "nothing"], "nothing\nnothing\nnothing\n"),
        (["note"], "it's , so\n"),
        (["-l"], "core\ncpu\nhost\nnote\n"),
    ],
)
def test_lines(capsys: pytest.CaptureFixture[str], arguments: list[str], output: str | None) -> None:
    wanted = output or "host: n1 cpu: 1+2 core: 1+3+11\nhost: n9 cpu: 5 core: 20\nhost: n10 cpu: 9 core: 40\n"
    assert oarprint(capsys, *arguments) == (0, wanted, "")


@pytest.mark.usefixtures("inside")
def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = oarprint(capsys, "cpu", "-P", "cpu,core", "-J")
    assert json.loads(out)[0] == {"cpu": ["1"], "core": ["1", "3"]}
    assert json.loads(oarprint(capsys, "-l", "--json")[1]) == ["core", "cpu", "host", "note"]


@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize(
    ("arguments", "status", "error"),
    [
        ([], 2, "no property is named (oarprint host, or oarprint -l for their names)"),
        (["mem"], 4, "no resource of the job has a property 'mem' (core, cpu, host, note)"),
        (["host", "-P", "host,,core"], 4, "no resource of the job has a property '' (core, cpu, host, note)"),
        (["host", "-T", ""], 2, "the token is empty (-T %)"),
        (["host", "-f", "/no/such/file"], 1, "/no/such/file: does not exist or is no plain file"),
        (
            ["host", "-f", "-"],
            2,
            "standard input holds a line without properties " + HINT,
        ),
    ],
)
def test_refusals(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    status: int,
    error: str,
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"something else\n")))
    assert oarprint(capsys, *arguments) == (status, "", f"oarprint: {error}\n")


def test_outside_of_a_job(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OAR_RESOURCE_PROPERTIES_FILE", raising=False)
    status, _, error = oarprint(capsys, "host")
    assert (status, "not inside a job" in error) == (2, True)


_NAMES = st.text(string.ascii_lowercase + "_", min_size=1, max_size=8)
_VALUES = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp"), exclude_characters="'"), max_size=12)


@given(st.lists(st.dictionaries(_NAMES, _VALUES, min_size=1, max_size=4), max_size=5))
def test_what_a_job_is_given_is_read_as_it_was(resources: list[Mapping[str, str]]) -> None:
    text = "".join(f"{_properties_line(resource)}\n" for resource in resources)
    assert read_resources(text, "file") == resources


@given(
    st.lists(
        st.fixed_dictionaries({"a": st.sampled_from("123"), "b": st.integers(0, 20).map(str)}), min_size=1, max_size=12
    )
)
def test_every_value_is_printed_once_under_its_key(resources: list[Mapping[str, str]]) -> None:
    groups = grouped(resources, "a", ["a", "b"])
    assert [key for ((key,), _) in groups] == sorted({one["a"] for one in resources})
    for (key,), values in groups:
        assert set(values) == {one["b"] for one in resources if one["a"] == key}
        assert list(values) == sorted(set(values), key=int)
    assert len(lines(groups, "% %")) == len(groups)


def test_it_loads_no_driver_of_the_database(tmp_path: Path) -> None:
    (tmp_path / "resources").write_text("core = '3' , host = 'n1'\n", encoding="utf-8")
    code = (
        "import sys; from oarpy.client.boundary import execute; from oarpy.commands.oarprint import app;"
        "status = execute(app, 'oarprint', sys.argv[1:]); sys.stderr.write(' '.join(sys.modules)); sys.exit(status)"
    )
    words = ["host", "-f", str(tmp_path / "resources")]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "n1\n")
    assert not set(done.stderr.split()) & {"psycopg", "sqlalchemy", "numpy"}
