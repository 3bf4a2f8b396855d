"""``oarpy reproduce``: experiments of papers, run again in virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oarpy.client.rendering import write

app = typer.Typer(no_args_is_help=True, help="Experiments of papers, run again.")


@app.callback()
def experiments() -> None:
    """Run experiments of a paper again, and compare with what it says."""


@app.command()
def ndrms(
    traces: Annotated[Path, typer.Option("--traces", metavar="DIR", help="Has the log LLNL-Atlas-2006-2.1-cln.")],
    figures: Annotated[
        list[int] | None, typer.Option("--figure", metavar="N", help="7 to 12, once for each; default all.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="At most 3 minutes; some claims stay open.")] = False,
    output: Annotated[Path, typer.Option("--output", metavar="DIR", help="For figureNN.csv and figureNN.svg.")] = Path(
        "ndrms"
    ),
    as_json: Annotated[bool, typer.Option("-J", "--json", help="Print JSON.")] = False,
) -> None:
    """INRIA RR-7389, applications that negotiate: a line for each claim; exit status 1 if one fails."""
    from oarpy.simulation.ndrms.reproduction import reproduce, status

    found, report = reproduce(traces, figures or (), quick=quick, output=output, as_json=as_json)
    write(report)
    raise typer.Exit(status(found))
