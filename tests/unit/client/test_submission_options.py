"""#OAR lines, their merge with the command line, and parameter files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from oarpy.client.submission.directives.script import Script, in_directory, own_options, read_script
from oarpy.client.submission.options import Options, as_typed, merge, read_array_parameters, script_lines
from oarpy.model.errors import UsageError


def script(folder: Path, *lines: str) -> str:
    path = folder / "script.sh"
    path.write_text("\n".join(["#!/bin/sh", *lines, "echo done", ""]), encoding="utf-8")
    path.chmod(0o700)
    return str(path)


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("#OAR -l /nodes=2/core=1,walltime=1:0:0", "alternatives", ("/nodes=2/core=1,walltime=1:0:0",)),
        ("#OAR --resource=/nodes=2", "alternatives", ("/nodes=2",)),
        ("#OAR -l \"{mem > 4 and model = 'x'}/nodes=1\"", "alternatives", ("{mem > 4 and model = 'x'}/nodes=1",)),
        ("#OAR -p gpu='YES'", "properties", "gpu='YES'"),
        ("#OAR -p \"gpu='YES' and mem > 4\"", "properties", "gpu='YES' and mem > 4"),
        ("#OAR -p mem > 4", "properties", "mem > 4"),
        ("#OAR -q  besteffort  ", "queue", "besteffort"),
        ("#OAR -t besteffort", "types", ("besteffort",)),
        ("#OAR -n my job", "name", "my job"),
        ('#OAR --name="my job"', "name", "my job"),
        ("#OAR -d '/some where'", "directory", "/some where"),
        ("#OAR -d /some\\ where", "directory", "/some where"),
        ("#OAR -O out.%jobid%", "stdout", "out.%jobid%"),
        ("#OAR -E err", "stderr", "err"),
        ("#OAR --project p1", "project", "p1"),
        ("#OAR --array 12", "array_size", "12"),
        ("#OAR --array-param-file params", "array_parameters", "params"),
        ("#OAR --checkpoint 60", "checkpoint", "60"),
        ("#OAR --signal=10", "checkpoint_signal", "10"),
        ("#OAR --notify [END]mail:a@b", "notify", "[END]mail:a@b"),
        ("#OAR --hold", "hold", True),
        ("#OAR -a 7", "dependencies", ("7",)),
        ("#OAR --after ok:7", "dependencies", ("ok:7",)),
        ("#OAR -r 2026-05-01 12:00:00", "reservation", "2026-05-01 12:00:00"),
    ],
)
def test_line(tmp_path: Path, line: str, field: str, value: object) -> None:
    options, kept = own_options(read_script(f"{script(tmp_path, line)} some arguments"))
    assert {**options.texts, **options.lists, **dict.fromkeys(options.flags, True)} == {field: value}
    assert kept == (line.rstrip(),)


@pytest.mark.parametrize(
    "line",
    [
        "#OAR",
        "#OAR nodes=2",
        "#OAR -z 1",
        "#OAR --unknown 1",
        "#OAR -l",
        "#OAR --hold yes",
        "#OAR -S",
        "#OAR -I",
        "#OAR --resubmit 3",
        "#OAR - l x",
    ],
)
def test_unknown_line_names_its_place(tmp_path: Path, line: str) -> None:
    with pytest.raises(UsageError, match="line 3"):
        own_options(read_script(script(tmp_path, "# a comment", line)))


def test_other_comments_are_left_alone(tmp_path: Path) -> None:
    options, kept = own_options(read_script(script(tmp_path, "#OARISH -z", "# OAR -z", " #OAR -z", "#SBATCH -z")))
    assert (options, kept) == (Options(), ())


def test_scalar_given_twice(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="twice"):
        own_options(read_script(script(tmp_path, "#OAR -n a", "#OAR -n b")))


def test_a_script_may_begin_with_any_line(tmp_path: Path) -> None:
    path = tmp_path / "program"
    path.write_bytes(b"echo no hash\n#OAR -n x\n")
    path.chmod(0o700)
    options, kept = own_options(read_script(str(path)))
    assert (options.texts, kept) == ({"name": "x"}, ("#OAR -n x",))


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ('#!/bin/bash\n#OAR -n x\necho "it\'s $1" \\\n  "[$2]"\nread -r line && echo "$line"\n', "it's a [b c]\nin\n"),
        ("#!/usr/bin/env python3\nimport sys\nprint(sys.argv[1:])\n", "['a', 'b c']\n"),
        ("echo plain $#\ncat <<'END_OF_SCRIPT_0'\n$x\nEND_OF_SCRIPT_0\n", "plain 2\n$x\n"),
    ],
)
def test_a_script_of_standard_input_runs_with_its_interpreter(shell: str, text: str, printed: str) -> None:
    command = Script("standard input", script_lines("it", text.encode())).inline_command(["a", "b c"])
    done = subprocess.run([shell, "-c", command], input="in\n", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, printed, "")


@pytest.mark.parametrize("content", [b"", b"\x7fELF\0\0"])
def test_what_is_no_text_is_no_script(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "program"
    path.write_bytes(content)
    path.chmod(0o700)
    with pytest.raises(UsageError, match="is no script"):
        read_script(str(path))


@pytest.mark.parametrize("command", ["", "  ", "/no/such/file", "/", "'unbalanced", "a\0b"])
def test_no_script(command: str) -> None:
    with pytest.raises(UsageError):
        read_script(command)


def test_merge_command_line_wins_and_lists_are_joined() -> None:
    typed = Options(
        words=("./s", "x"),
        texts={"name": "mine", "queue": "same"},
        lists={"types": ("a",), "alternatives": ("nodes=1",)},
    )
    written = Options(
        texts={"name": "its", "project": "p", "queue": "same"},
        lists={"types": ("b",), "alternatives": ("nodes=2",)},
        flags=frozenset({"hold"}),
    )
    merged, warnings = merge(typed, written)
    assert merged == Options(
        words=("./s", "x"),
        texts={"name": "mine", "project": "p", "queue": "same"},
        lists={"types": ("a", "b"), "alternatives": ("nodes=1", "nodes=2")},
        flags=frozenset({"hold"}),
    )
    assert len(warnings) == 1
    assert "mine" in warnings[0]
    assert "its" in warnings[0]


def test_a_script_without_a_folder_is_found_in_the_present_one() -> None:
    assert in_directory(Options(words=("job.sh",))).words == ("./job.sh",)
    assert in_directory(Options(words=("job.sh", "a b"))).words == ("./job.sh 'a b'",)
    assert in_directory(Options(words=("'my job.sh' 1",))).words == ("./'my job.sh' 1",)
    assert in_directory(Options(words=("bin/job.sh 1",))).words == ("bin/job.sh 1",)


def test_parameters(tmp_path: Path) -> None:
    path = tmp_path / "params"
    path.write_text("# head\n1 2\n\n  3 '# no' # yes\n\"\"\na#b\n   # tail\nlast", encoding="utf-8")
    assert read_array_parameters(str(path)) == ("1 2", "3 '# no'", "", "a#b", "last")


@pytest.mark.parametrize("content", ["", "\n\n", "# only\n"])
def test_parameters_missing(tmp_path: Path, content: str) -> None:
    path = tmp_path / "params"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(UsageError, match="no line"):
        read_array_parameters(str(path))


def test_command_and_call() -> None:
    assert Options(words=("sleep 1; date",)).command == "sleep 1; date"
    assert Options(words=("echo", "a b")).command == "echo 'a b'"
    assert as_typed(["-S", "./s x"], ["#OAR -n y"]) == "oarsub -S './s x'; #OAR -n y"
