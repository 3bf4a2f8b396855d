from __future__ import annotations

import io
from pathlib import Path

import pytest

from oarpy.model.errors import OarpyError, UsageError
from oarpy.simulation.engines.machine import Machine
from oarpy.simulation.traces.swf import read_swf
from oarpy.simulation.workloads.generate import KINDS, generated, run_generate


@pytest.mark.parametrize("kind", KINDS)
def test_a_generated_workload_is_read_back_whole(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "made.swf"
    assert run_generate(kind, 64, jobs=100, seed=5, output=path) == 0
    trace = read_swf(path, Machine(64))
    assert trace.jobs == generated(kind, 64, 100, 5)
    assert trace.left_out == 0
    assert len(trace.jobs) == (230 if kind.startswith("esp2") else 100)


def test_without_a_file_it_is_printed() -> None:
    out = io.StringIO()
    run_generate("esp2", 34, stdout=out)
    lines = out.getvalue().splitlines()
    assert sum(not line.startswith(";") for line in lines) == 230
    assert "; MaxProcs: 34" in lines


def test_what_makes_no_sense_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown workload 'esp3'"):
        run_generate("esp3", 34)
    with pytest.raises(UsageError, match="0 jobs"):
        run_generate("lublin", 34, jobs=0)
    with pytest.raises(OarpyError, match="cannot write"):
        run_generate("esp2", 34, output=tmp_path / "nowhere" / "made.swf")
