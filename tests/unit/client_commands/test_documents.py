"""The forms that OAR has beside JSON, read back by other programs."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import typer
import yaml

from oarpy.client.boundary import execute
from oarpy.client.options import documents
from oarpy.client.rendering import json_text, write

VALUE: dict[str, Any] = {
    "12": {"name": "it's \\ ä\n\x1b[1m", "ids": [1, 2], "none": None, "yes": True, "load": 1.5, "empty": {}, "no": []},
    "13": "text: # with @$ signs",
}


def test_yaml_is_read_back() -> None:
    assert yaml.safe_load(documents.yaml_text(VALUE)) == VALUE


def test_xml_has_the_elements_of_xml_dumper() -> None:
    root = ElementTree.fromstring(documents.xml_text(VALUE))
    assert root.tag == "perldata"
    items = {item.get("key"): item for item in root.findall("hashref/item[@key='12']/hashref/item")}
    assert (items["name"].text, items["yes"].text, items["load"].text) == ("it's \\ ä\n\ufffd[1m", "1", "1.5")
    assert [item.text for item in items["ids"].findall("arrayref/item")] == ["1", "2"]
    assert items["none"].get("defined") == "false"


@pytest.mark.skipif(shutil.which("perl") is None, reason="perl is not installed")
def test_perl_evaluates_what_is_printed_for_it() -> None:
    program = (
        "local $/; my $VAR1; eval <STDIN>; die $@ if $@;"
        "my $one = $VAR1->{12};"
        "print join '|', $one->{name}, @{$one->{ids}}, $one->{load}, defined $one->{none}, $VAR1->{13}"
    )
    shown = subprocess.run(["perl", "-e", program], input=documents.perl_text(VALUE), capture_output=True, text=True)
    assert (shown.stderr, shown.stdout) == ("", "it's \\ ä\n\x1b[1m|1|2|1.5||text: # with @$ signs")


app = typer.Typer(add_completion=False)


@app.command(cls=documents.DocumentCommand)
def sample(as_json: bool = typer.Option(False, "-J", "--json")) -> None:
    """Print two documents."""
    write(json_text({"a": 1}) if as_json else "plain\n")
    if as_json:
        write(json_text([2]))


def run(*arguments: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = execute(app, "sample", arguments)
    return status, out.getvalue(), err.getvalue()


def test_each_document_is_converted() -> None:
    assert run() == (0, "plain\n", "")
    assert run("-Y") == (0, "---\na: 1\n---\n- 2\n", "")
    assert run("-D") == (0, "$VAR1 = {\n  'a' => 1\n};\n$VAR1 = [\n  2\n];\n", "")
    assert [json.loads(part) for part in run("-J")[1].split("}\n")[1:]] == [[2]]
    status, out, err = run("-Y", "-X")
    assert (status, out, err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("name", sorted(path.stem for path in (Path(__file__).parents[3] / "commands").glob("oar*.py")))
def test_every_command_has_its_version_and_its_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = importlib.import_module(f"oarpy.commands.{name}").app
    assert execute(command, name, ["-V"]) == 0
    assert re.fullmatch(rf"{name} of oarpy \S+\n", capsys.readouterr().out)
    word = "--help" if name == "oarnodesetting" else "-h"  # there -h is OAR's --hostname
    assert execute(command, name, [word]) == 0
    assert "Usage" in capsys.readouterr().out
