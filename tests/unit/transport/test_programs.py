"""Programs that are sent to nodes or installed there: compiled for one version of Python, right with any."""

from __future__ import annotations

import marshal
import subprocess
import sys
from pathlib import Path

import pytest

from oarpy.transport.agent.programs import install_program
from oarpy.transport.bundle import agent_arguments, agent_modules, agent_program
from oarpy.transport.node import ChannelConfig, NodeAddress

_BEGIN = "from greeting.words import WORD\n\nprint(WORD)\n"
_OTHER = "2.7 (another Python)"


def _modules(version: str, word: str, code_word: str) -> tuple[str, dict[str, tuple[str, bytes]]]:
    """Return a package whose code says another word than its source: what is printed tells which was taken."""
    source, code = f"WORD = {word!r}\n", marshal.dumps(compile(f"WORD = {code_word!r}\n", "words", "exec"))
    return version, {"greeting": ("", marshal.dumps(compile("", "greeting", "exec"))), "greeting.words": (source, code)}


def _said(script: Path) -> str:
    return subprocess.run([script], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize(("version", "said"), [(sys.version, "code"), (_OTHER, "source")])
def test_a_script_takes_the_code_of_its_own_python_alone(tmp_path: Path, version: str, said: str) -> None:
    assert install_program(str(tmp_path), "greet", _modules(version, "source", "code"), _BEGIN)
    assert _said(tmp_path / "greet") == said
    assert marshal.loads((tmp_path / "greet.modules").read_bytes())[0] == sys.version


def test_a_script_whose_python_was_replaced_takes_the_sources(tmp_path: Path) -> None:
    install_program(str(tmp_path), "greet", _modules(sys.version, "source", "code"), _BEGIN)
    _, packed = marshal.loads((tmp_path / "greet.modules").read_bytes())
    (tmp_path / "greet.modules").write_bytes(marshal.dumps((_OTHER, packed)))
    assert _said(tmp_path / "greet") == "source"
    install_program(str(tmp_path), "greet", _modules(sys.version, "source", "code"), _BEGIN)
    assert _said(tmp_path / "greet") == "code"


def test_other_sources_are_written_and_the_same_are_left(tmp_path: Path) -> None:
    install_program(str(tmp_path), "greet", _modules(sys.version, "first", "first"), _BEGIN)
    made = (tmp_path / "greet.modules").stat().st_ino
    install_program(str(tmp_path), "greet", _modules(sys.version, "first", "first"), _BEGIN)
    assert (tmp_path / "greet.modules").stat().st_ino == made
    install_program(str(tmp_path), "greet", _modules(sys.version, "second", "second"), _BEGIN)
    assert _said(tmp_path / "greet") == "second"


def test_the_agent_begins_with_any_version_of_python(tmp_path: Path) -> None:
    node = NodeAddress("n1", str(tmp_path), python=sys.executable)
    text, (version, packed), settings = marshal.loads(agent_program(node, ChannelConfig(), "probe"))
    assert version == sys.version
    sources = {name: (source, b"not of this Python") for name, (source, _) in packed.items()}
    other = marshal.dumps((text, (_OTHER, sources), settings))
    for program in (agent_program(node, ChannelConfig(), "probe"), other):
        done = subprocess.run(agent_arguments(node, program), input=program, capture_output=True, check=True)
        assert b'"python"' in done.stdout


def test_nodes_with_the_same_settings_share_one_program() -> None:
    config = ChannelConfig(machine_root="/machines/%h")
    first, second = (NodeAddress(name, "/state") for name in ("n1", "n2"))
    assert agent_program(first, ChannelConfig()) is agent_program(second, ChannelConfig())
    assert agent_program(first, config) != agent_program(second, config)


def test_code_and_source_of_each_module_of_the_agent_agree() -> None:
    _, packed = agent_modules()
    for name, (source, code) in packed.items():
        assert marshal.loads(code) == compile(source, name, "exec"), name
