"""``oarpy reproduce``: experiments of papers, run again in virtual time."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from oarpy.commands.checkout import research

from oarpy.client.rendering import write

Quick = Annotated[bool, typer.Option("--quick", help="Fewer jobs and seeds; judges nothing.")]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="First seed.")]
Processes = Annotated[int | None, typer.Option("--processes", metavar="N", min=1, help="Default: one a core.")]
Dask = Annotated[str | None, typer.Option("--dask", metavar="ADDRESS", help="Run on a Dask cluster.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Forget the finished runs of DIR.")]
Scenarios = Annotated[
    Path | None,
    typer.Option("--write", metavar="FILE", help="Run nothing: write the scenarios there, a JSON line each."),
]
Json = Annotated[bool, typer.Option("-J", "--json", help="Print JSON.")]

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
    processes: Processes = None,
    dask: Dask = None,
    fresh: Fresh = False,
    as_json: Json = False,
) -> None:
    """INRIA RR-7389, applications that negotiate: a line for each claim; exit status 1 if one fails."""
    experiment = research("ndrms.reproduction")
    done = experiment.reproduce(
        traces,
        figures or (),
        quick=quick,
        output=output,
        as_json=as_json,
        real=research("benchmarks.negotiated_run").run_for_real,
        pool=_pool(processes, dask),
        fresh=fresh,
    )
    write(done.report)
    raise typer.Exit(experiment.status(done.claims, real=not quick, failed=done.failed))


@app.command()
def deadlines(
    figures: Annotated[
        list[int] | None, typer.Option("--figure", metavar="N", help="1 to 9, once for each; default all.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", metavar="DIR", help="For all files.")] = Path("deadlines"),
    quick: Quick = False,
    seed: Seed = 1,
    processes: Processes = None,
    dask: Dask = None,
    fresh: Fresh = False,
    as_json: Json = False,
) -> None:
    """Deadlines and co-allocation without reservations: a line for each claim; exit status 1 if one fails."""
    report, status = research("grids.deadlines_report").reproduce_deadlines(
        output,
        _pool(processes, dask),
        sys.stderr,
        figures=figures or (),
        seed=seed,
        quick=quick,
        fresh=fresh,
        as_json=as_json,
    )
    write(report)
    raise typer.Exit(status)


@app.command()
def reallocation(
    traces: Annotated[
        Path | None,
        typer.Option("--traces", metavar="DIR", help="Has the logs CTC-SP2-1996-3.1-cln, SDSC-SP2-1998-4.2-cln."),
    ] = None,
    scenarios: Annotated[
        list[str] | None, typer.Option("--scenario", metavar="NAME", help="jan to jun, pwa-g5k; default all.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", metavar="DIR", help="For all files.")] = Path("reallocation"),
    quick: Quick = False,
    seed: Seed = 1,
    processes: Processes = None,
    dask: Annotated[
        str | None, typer.Option("--dask", metavar="ADDRESS", help="Run on a Dask cluster instead.")
    ] = None,
    fresh: Fresh = False,
    as_json: Json = False,
) -> None:
    """INRIA RR-7226, jobs that move between clusters: a line for each claim; exit status 1 if one fails."""
    report, status = research("grids.reallocation_report").reproduce_reallocation(
        output,
        _pool(processes, dask),
        sys.stderr,
        traces=traces,
        scenarios=scenarios or (),
        seed=seed,
        quick=quick,
        fresh=fresh,
        as_json=as_json,
    )
    write(report)
    raise typer.Exit(status)


@app.command()
def flexible(
    traces: Annotated[Path, typer.Option("--traces", metavar="DIR", help="Has the log SDSC-SP2-1998-4.2-cln.")],
    figures: Annotated[
        list[int] | None, typer.Option("--figure", metavar="N", help="1 to 5, once for each; default all.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", metavar="DIR", help="For all files.")] = Path("flexible"),
    quick: Quick = False,
    full: Annotated[bool, typer.Option("--full", help="Five seeds instead of one.")] = False,
    files: Scenarios = None,
    seed: Seed = 1,
    processes: Processes = None,
    dask: Dask = None,
    fresh: Fresh = False,
    as_json: Json = False,
) -> None:
    """Reservations that may move, of a thesis of 2009: a line for each claim; exit status 1 if one fails."""
    report, status = research("reservations.flexible_report").reproduce_flexible(
        traces,
        output,
        _pool(processes, dask),
        sys.stderr,
        figures=figures or (),
        seed=seed,
        quick=quick,
        full=full,
        fresh=fresh,
        as_json=as_json,
        write=files,
    )
    write(report)
    raise typer.Exit(status)


@app.command()
def flexco(
    traces: Annotated[Path, typer.Option("--traces", metavar="DIR", help="Has the logs of CTC, HPC2N and SDSC.")],
    figures: Annotated[
        list[int] | None, typer.Option("--figure", metavar="N", help="1 to 11, once for each; default all.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", metavar="DIR", help="For all files.")] = Path("flexco"),
    quick: Quick = False,
    full: Annotated[bool, typer.Option("--full", help="Five seeds instead of two and one.")] = False,
    files: Scenarios = None,
    seed: Seed = 1,
    processes: Processes = None,
    dask: Dask = None,
    fresh: Fresh = False,
    as_json: Json = False,
) -> None:
    """Jobs over clusters that begin earlier, of a thesis of 2009: a line for each claim; exit status 1 if one fails."""
    report, status = research("reservations.flexco_report").reproduce_flexco(
        traces,
        output,
        _pool(processes, dask),
        sys.stderr,
        figures=figures or (),
        seed=seed,
        quick=quick,
        full=full,
        fresh=fresh,
        as_json=as_json,
        write=files,
    )
    write(report)
    raise typer.Exit(status)


@app.command()
def offers(
    traces: Annotated[
        Path,
        typer.Option("--traces", metavar="DIR", help="Has the logs of CTC, HPC2N, SDSC, and LPC-EGEE-2004-1.2-cln."),
    ],
    figures: Annotated[
        list[int] | None, typer.Option("--figure", metavar="N", help="1 to 5, once for each; default all.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", metavar="DIR", help="For all files.")] = Path("offers"),
    quick: Quick = False,
    full: Annotated[bool, typer.Option("--full", help="Thirty seeds instead of one.")] = False,
    files: Scenarios = None,
    seed: Seed = 1,
    processes: Processes = None,
    dask: Dask = None,
    fresh: Fresh = False,
    as_json: Json = False,
) -> None:
    """Bags with deadlines over clusters, of a thesis of 2009: a line for each claim; exit status 1 if one fails."""
    report, status = research("bags.offers_report").reproduce_offers(
        traces,
        output,
        _pool(processes, dask),
        sys.stderr,
        figures=figures or (),
        seed=seed,
        quick=quick,
        full=full,
        fresh=fresh,
        as_json=as_json,
        write=files,
    )
    write(report)
    raise typer.Exit(status)


@app.command()
def bags(
    output: Annotated[Path, typer.Option("--output", metavar="DIR", help="For all files.")] = Path("bags"),
    quick: Quick = False,
    full: Annotated[
        bool, typer.Option("--full", help="Fifteen seeds instead of three, and 20 overestimations.")
    ] = False,
    files: Scenarios = None,
    seed: Seed = 1,
    processes: Processes = None,
    dask: Dask = None,
    fresh: Fresh = False,
    as_json: Json = False,
) -> None:
    """Bags whose clusters coordinate, of a thesis of 2009: a line for each claim; exit status 1 if one fails."""
    report, status = research("bags.coordination_report").reproduce_bags(
        output,
        _pool(processes, dask),
        sys.stderr,
        seed=seed,
        quick=quick,
        full=full,
        fresh=fresh,
        as_json=as_json,
        write=files,
    )
    write(report)
    raise typer.Exit(status)


@app.command()
def mapping(
    output: Annotated[Path, typer.Option("--output", metavar="DIR", help="For all files.")] = Path("mapping"),
    files: Annotated[
        Path | None,
        typer.Option("--write", metavar="FILE", help="Run nothing: write the questions there, a JSON line each."),
    ] = None,
    real: Annotated[bool, typer.Option("--real", help="Run programs with maps, too: 10 minutes.")] = False,
    processes: Processes = None,
    dask: Dask = None,
    fresh: Fresh = False,
    as_json: Json = False,
) -> None:
    """Programs mapped over unlike nodes, of a thesis of 2009: a line for each claim; exit status 1 if one fails."""
    report, status = research("mapping.mapping_report").reproduce_mapping(
        output, _pool(processes, dask), sys.stderr, real=real, fresh=fresh, as_json=as_json, write=files
    )
    write(report)
    raise typer.Exit(status)


def _pool(processes: int | None, dask: str | None) -> Any:
    """Return where the runs are done."""
    pools = research("runs.pools")
    return pools.dask_pool(dask) if dask else pools.local_pool(processes or pools.all_processes())
