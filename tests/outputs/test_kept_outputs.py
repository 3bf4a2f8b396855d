"""``oarpy plan``, ``simulate``, ``negotiate`` and ``grid simulate`` print what they printed, byte for byte."""

from __future__ import annotations

import pytest

from tests.outputs.kept_outputs import digest, kept_digests, kept_files, outputs_of


@pytest.mark.parametrize("command", ["plan", "grid simulate", "negotiate", "simulate"])
def test_outputs_are_those_that_were_kept(command: str) -> None:
    files = [file for file in kept_files() if file.command == command]
    kept = kept_digests()
    changed = [name for name, output in outputs_of(command, files).items() if digest(output) != kept[name]]
    assert not changed, f"{len(changed)} outputs changed; see tests/outputs/kept_outputs.py: {' '.join(changed[:40])}"
    assert files


def test_every_file_has_its_digest() -> None:
    assert [file.name for file in kept_files()] == [*kept_digests()]
