"""``oarpy``: set up, run and look into an installation; plan and simulate on files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from oarpy.commands.events import events
from oarpy.commands.history import app as history
from oarpy.commands.oartoken import app as tokens
from oarpy.commands.reproduce import app as reproduce

from oarpy import installed_version
from oarpy.client.boundary import run
from oarpy.client.options.optional_values import PastDateCommand
from oarpy.client.rendering import Column, JsonValue, Table, json_text, show, write
from oarpy.model.errors import NotFound, UsageError
from oarpy.model.setting_values import POLICIES

if TYPE_CHECKING:
    from oarpy.simulation.stepping.sources import Source

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="An OAR-style batch scheduler around PostgreSQL.",
)
database = typer.Typer(no_args_is_help=True, help="The database: the embedded server, the schema, its state.")
settings = typer.Typer(no_args_is_help=True, help="The configuration.")
grid = typer.Typer(no_args_is_help=True, help="Several clusters and their broker.")
app.add_typer(database, name="db")
app.add_typer(settings, name="config")
app.add_typer(grid, name="grid")
app.add_typer(history, name="history")
app.add_typer(tokens, name="token")
app.add_typer(reproduce, name="reproduce")
app.command()(events)

_PLACES = "With the state, print queues, who holds and will hold which processors, and why the last event changed it."
_WEB = "Step through it in a browser on this machine, at the link that is printed (extra web)."
_PORT = "Port of --web; default any that is free."
Json = Annotated[bool, typer.Option("-J", "--json", help="Print JSON.")]


@app.command()
def version(as_json: Json = False) -> None:
    """Print the version."""
    number = installed_version()
    write(json_text({"version": number}) if as_json else f"oarpy {number}\n")


@app.command()
def completion(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
    as_json: Json = False,
) -> None:
    """Print the script that completes options and job ids on the command line: eval "$(oarpy completion bash)"."""
    from oarpy.commands.completion import SCRIPTS

    if shell not in SCRIPTS:
        raise UsageError(f"no completion for the shell '{shell[:80]}'", hint=", ".join(SCRIPTS))
    script = SCRIPTS[shell]()
    write(json_text({"script": script}) if as_json else script)


@database.command("upgrade")
def database_upgrade(
    wait: Annotated[
        float, typer.Option("--wait", metavar="SECONDS", min=0, help="Wait so long for a database that is away.")
    ] = 0.0,
    as_json: Json = False,
) -> None:
    """Bring the schema and the default admission rules up to date; rules that were changed here are left alone."""
    from oarpy.client import installation
    from oarpy.configuration import load

    done = installation.upgrade_installation(load(), wait)
    rules = {"added": done.rules.added, "updated": done.rules.updated, "kept": done.rules.kept}
    if as_json:
        write(json_text({"revisions": done.revisions, "rules": rules}))
        return
    if done.revisions:
        write(f"the schema is at revision {done.revisions[-1]} ({len(done.revisions)} applied)\n")
    else:
        write("schema is up to date\n")
    if done.rules.added:
        write(f"{len(done.rules.added)} admission rules added\n")
    changed = {what: names for what, names in rules.items() if what != "added"}
    write("".join(f"admission rule {name} {what}\n" for what, names in changed.items() for name in names))


@database.command("downgrade")
def database_downgrade(
    revision: Annotated[str, typer.Argument(metavar="REVISION", help="The revision to go back to, as 0023.")],
    as_json: Json = False,
) -> None:
    """Take the schema back to an earlier revision, for an older version; what later revisions keep is destroyed."""
    from oarpy.client import installation
    from oarpy.configuration import load
    from oarpy.store.database import database_dsn

    undone = installation.downgrade(database_dsn(load()), revision)
    if as_json:
        write(json_text({"undone": undone}))
    else:
        write(
            "".join(f"schema revision {step} undone\n" for step in undone) or f"the schema is at {revision} already\n"
        )


@database.command("check")
def database_check(
    accounting: Annotated[
        bool, typer.Option("--accounting", help="Compute all consumption from the jobs again, and compare it too.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Compare the database with what this version needs; exit status 1 when something is wrong."""
    from oarpy.client import installation
    from oarpy.configuration import load
    from oarpy.store.database import database_dsn

    configuration = load()
    problems = installation.check(database_dsn(configuration))
    if accounting:
        problems += installation.check_accounting(configuration)
    if as_json:
        write(json_text({"problems": problems}))
    else:
        write("".join(f"{problem}\n" for problem in problems) or "the database is as it should be\n")
    raise typer.Exit(1 if problems else 0)


@database.command("start")
def database_start(as_json: Json = False) -> None:
    """Start the embedded server, creating its data on first use; it runs until it is stopped."""
    from oarpy.client import installation
    from oarpy.configuration import load

    url = installation.start_database(load())
    write(json_text({"url": url}) if as_json else "the database runs (oarpy db url says where)\n")


@database.command("stop")
def database_stop(as_json: Json = False) -> None:
    """Stop the embedded server; its data stays."""
    from oarpy.client import installation
    from oarpy.configuration import load

    stop = installation.stop_database(load())
    text = "the database is stopped\n" if stop.stopped else "the database did not run\n"
    if stop.served:
        text += "modules of a server were connected: oarpy server starts it again, so stop that first\n"
    write(json_text({"stopped": stop.stopped, "served": stop.served}) if as_json else text)


@database.command("url")
def database_url(as_json: Json = False) -> None:
    """Print where the database is, for psql and other programs (with its password, if it has one)."""
    from oarpy.configuration import load
    from oarpy.store.database import database_dsn

    url = database_dsn(load())
    write(json_text({"url": url}) if as_json else f"{url}\n")


@database.command("analyst")
def database_analyst(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A role of PostgreSQL: a new one, or an analyst's.")],
    compat: Annotated[
        bool, typer.Option("--compat", help="For programs that know OAR 2.5: they find oar_compat, not oar_report.")
    ] = False,
    password_file: Annotated[
        Path | None,
        typer.Option("--password-file", metavar="FILE", help="Its first line is the password; - is standard input."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a role that reads the views for analysts, and nothing else; again for one whose rights are to be renewed."""
    from oarpy.client.installation import make_analyst
    from oarpy.configuration import load

    created = make_analyst(load(), name, compat=compat, password_file=password_file)
    text = f"role {name} {'made' if created else 'renewed'}\n"
    write(json_text({"role": name, "created": created}) if as_json else text)


@database.command("dump")
def database_dump(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What to write; only you may read it.")],
    as_json: Json = False,
) -> None:
    """Write the whole database, and the roles of analysts, to a file; the server may go on meanwhile."""
    from oarpy.client import dumps
    from oarpy.configuration import load

    facts = dumps.dump(load(), file)
    if as_json:
        write(json_text({"file": str(file), "revision": facts.revision, "postgresql": facts.postgresql}))
    else:
        write(f"{file}: revision {facts.revision} of PostgreSQL {facts.postgresql}, {len(facts.analysts)} analysts\n")


@database.command("restore")
def database_restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="From oarpy db dump, or from pg_dump.")],
    replace: Annotated[bool, typer.Option("--replace", help="Put it in place of all that the database has.")] = False,
    as_json: Json = False,
) -> None:
    """Restore a dump, whole or not at all, and bring it to this version; exit status 1 when something is wrong then."""
    from oarpy.client import dumps
    from oarpy.configuration import load

    done = dumps.restore(load(), file, replace=replace)
    if as_json:
        write(json_text({"revisions": done.revisions, "analysts": done.analysts, "problems": done.problems}))
    else:
        write("".join(f"schema revision {revision} applied\n" for revision in done.revisions))
        write("".join(f"role {name} renewed\n" for name in done.analysts))
        write("".join(f"{problem}\n" for problem in done.problems) or "restored; the database is as it should be\n")
    raise typer.Exit(1 if done.problems else 0)


@database.command("query")
def database_query(
    statement: Annotated[str, typer.Argument(metavar="SQL", help="One query; nothing can be changed by it.")],
    as_json: Json = False,
) -> None:
    """Run a query, for example over the views of schema oar_report, and print its rows."""
    from oarpy.client.queries import query
    from oarpy.client.session import open_session

    with open_session("oarpy db query") as session:
        rows = query(session, statement)
    show(rows, as_json=as_json)


@settings.command("show")
def config_show(as_json: Json = False) -> None:
    """Print every setting and where its value comes from; passwords are hidden."""
    from oarpy.client.health.configuration_report import settings as all_settings
    from oarpy.configuration import load

    listed = all_settings(load())
    if as_json:
        write(json_text({setting.key: setting.as_json() for setting in listed}))
    else:
        columns = (Column("Setting"), Column("Value"), Column("From"))
        write(Table(columns, tuple(setting.row() for setting in listed)).text())


@settings.command("check")
def config_check(as_json: Json = False) -> None:
    """Read the configuration as every program does, and say which file it is; an error names the wrong setting."""
    from oarpy.configuration import load

    configuration = load()
    changed = sum(origin != "default" for origin in configuration.origins.values())
    if as_json:
        write(json_text({"file": configuration.path or None, "settings_changed": changed}))
    else:
        where = configuration.path or "no file: all settings are defaults or from the environment"
        write(f"the configuration is right ({where}; {changed} settings differ from their defaults)\n")
        write("programs that run read it when they started: after a change, start oarpy server and oarpy web again\n")


_REPORTED = "A month YYYY-MM, a day such as yesterday, -7d, or 'DATE, DATE'; days are of UTC."


@app.command(cls=PastDateCommand)
def report(
    period: Annotated[str, typer.Argument(metavar="PERIOD", help=_REPORTED)],
    to: Annotated[Path | None, typer.Option("--to", metavar="FILE.html", help="Write a page with plots.")] = None,
    folder: Annotated[
        Path | None, typer.Option("--csv", metavar="DIR", help="Write a CSV file for each table.")
    ] = None,
    project: Annotated[
        str | None, typer.Option("--project", metavar="PROJECT", help="Usage of a project and those below it alone.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Report a period: usage, waits, utilisation, failures, best-effort waste, accuracy of predictions."""
    from oarpy.client.analytics import report as reports
    from oarpy.configuration import load
    from oarpy.store.database import connect, database_dsn, reachable

    begin, end = reports.period(period)
    reports.require_one_place(to, folder, as_json)
    with reachable(), connect(database_dsn(load()), "report") as connection:
        tables = reports.tables(connection, begin, end, project)
    if to is not None:
        reports.write_page(to, reports.page(tables, begin, end))
    if folder is not None:
        reports.write_csv(folder, tables)
    places = "".join(f"{place}\n" for place in (to, folder) if place is not None)
    write(json_text(reports.document(tables)) if as_json else places)


@app.command()
def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Gets DATASET/month=YYYY-MM/part-0.parquet.")],
    as_json: Json = False,
) -> None:
    """Write ended jobs and sums as Parquet, a folder a month; again, only what is new or changed."""
    from oarpy.client.analytics.export import export as write_files
    from oarpy.configuration import load
    from oarpy.store.database import connect, database_dsn, reachable

    with reachable(), connect(database_dsn(load()), "export") as connection:
        done = write_files(connection, folder)
    text = "".join(f"{path}\n" for path in done.written) + f"{len(done.written)} files written, {done.kept} kept\n"
    write(json_text({"written": done.written, "kept": done.kept}) if as_json else text)


@app.command()
def doctor(as_json: Json = False) -> None:
    """Look at everything the installation needs; a line for each thing that is wrong, and exit status 1."""
    from oarpy.client.health.doctor import examine

    diagnosis = examine()
    show(diagnosis, as_json=as_json)
    raise typer.Exit(1 if diagnosis.findings else 0)


@app.command()
def metrics() -> None:
    """Print the figures that Prometheus reads at /metrics of oarpy web, for node_exporter's textfile collector."""
    from oarpy.client.health.metrics import metrics_text
    from oarpy.configuration import load
    from oarpy.store.database import connect, database_dsn, reachable

    configuration = load()
    with reachable(), connect(database_dsn(configuration), "metrics") as connection:
        write(metrics_text(connection, configuration))


@app.command()
def plan(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Scenario files (JSON).")],
    timing: Annotated[bool, typer.Option("--timing", help="Add the seconds of reading, planning, writing.")] = False,
    decisions: Annotated[
        bool, typer.Option("--decisions", help="Add what else is decided: starts, victims, nodes to wake, ...")
    ] = False,
    _as_json: Annotated[bool, typer.Option("-J", "--json", help="Accepted: the output is always JSON.")] = False,
) -> None:
    """Plan scenario files with the production scheduler, without a database: one JSON object a line for each."""
    from oarpy.cluster_state.order_plugins import SiteOrders
    from oarpy.simulation.scenarios.scenario import run_plan

    raise typer.Exit(run_plan(files, timing, sys.stdout, sys.stderr, orders=SiteOrders(), decisions=decisions))


@app.command()
def negotiate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Clusters and applications (JSON).")],
    _as_json: Annotated[bool, typer.Option("-J", "--json", help="Accepted: the output is always JSON.")] = False,
) -> None:
    """Run applications that negotiate in virtual time: a JSON object for each message and move, then totals."""
    from oarpy.negotiation.simulation.command import run_negotiate

    run_negotiate(file, sys.stdout)


@app.command()
def decide(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Questions (JSON).")],
    _as_json: Annotated[bool, typer.Option("-J", "--json", help="Accepted: the output is always JSON.")] = False,
) -> None:
    """Answer questions on files as clusters and brokers would, without a database: one JSON object a line for each."""
    from oarpy.questions.command import run_decide

    raise typer.Exit(run_decide(files, sys.stdout, sys.stderr))


@grid.callback()
def several_clusters() -> None:
    """Place jobs on several clusters."""


@grid.command("simulate")
def grid_simulate(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Clusters and jobs (JSON).")],
    steps: Annotated[
        int | None, typer.Option("--steps", metavar="N", min=0, help="Stop after N events, and print the state then.")
    ] = None,
    until: Annotated[
        float | None, typer.Option("--until", metavar="T", help="Stop after the last event up to second T.")
    ] = None,
    log: Annotated[
        str | None, typer.Option("--log", metavar="FILE", help="Write a line of JSON for each event to FILE.")
    ] = None,
    places: Annotated[bool, typer.Option("--places", help=_PLACES)] = False,
    web: Annotated[bool, typer.Option("--web", help=_WEB)] = False,
    port: Annotated[int | None, typer.Option("--port", metavar="N", min=0, max=65535, help=_PORT)] = None,
    _as_json: Annotated[bool, typer.Option("-J", "--json", help="Accepted: the output is always JSON.")] = False,
) -> None:
    """Simulate several clusters with one broker, without a database: one JSON object a line for each file."""
    from oarpy.grid.simulation.command import run_grid
    from oarpy.grid.simulation.scenario_source import read_sources
    from oarpy.simulation.stepping.stepped_run import Stop

    _check_port(web, port)
    if web:
        for name, value in (("steps", steps), ("until", until), ("log", log), ("places", places or None)):
            if value is not None:
                raise UsageError(f"--{name} does not go with --web", hint="the page steps through the scenario")
        sources = read_sources(files, sys.stderr)
        raise typer.Exit(_serve_stepping(sources, port) if sources else UsageError.exit_status)

    stop = Stop(steps, until, places)
    if places and not stop.early:
        raise UsageError("--places does not go without --steps or --until", hint="add --steps N")
    raise typer.Exit(run_grid(files, sys.stdout, sys.stderr, stop, log))


@grid.command("replay")
def grid_replay(as_json: Json = False) -> None:
    """Take the stored decisions of this broker again; a line for each that comes out differently, and status 1."""
    from oarpy.configuration import load
    from oarpy.grid.broker.replay import DifferingDecision, UnreplayableDecision, differing
    from oarpy.store.database import connect, database_dsn, reachable
    from oarpy.store.grid.decisions import every

    with reachable(), connect(database_dsn(load()), "replay") as connection:
        differences = list(differing(every(connection)))
    others = [difference for difference in differences if isinstance(difference, DifferingDecision)]
    large = [difference.id for difference in differences if isinstance(difference, UnreplayableDecision)]
    taken = len(differences) - len(large)
    text = "".join(f"{decision.line()}\n" for decision in others)
    text += f"{taken - len(others)} of {taken} decisions the same\n"
    left: dict[str, JsonValue] = {"not_replayable": [*large]}
    text += f"{len(large)} more were too large to be stored whole, and cannot be taken again\n" if large else ""
    document: dict[str, JsonValue] = {
        "decisions": taken,
        "different": [asdict(decision) for decision in others],
        **left,
    }
    write(json_text(document) if as_json else text)
    raise typer.Exit(1 if others else 0)


@grid.command("demo")
def grid_demo() -> None:
    """Run a broker and three clusters on this machine, for real, and print the transcript; as root."""
    from oarpy.grid.local.demo import run_grid_demo

    run_grid_demo()


@app.command()
def simulate(
    trace: Annotated[
        Path | None, typer.Option("--trace", metavar="FILE", help="Trace in Standard Workload Format, plain or gzip.")
    ] = None,
    from_database: Annotated[
        bool, typer.Option("--from-database", help="Replay this site's own ended jobs instead of a trace.")
    ] = False,
    procs: Annotated[int | None, typer.Option("--procs", metavar="N", help="Processors of the machine.")] = None,
    nodes: Annotated[int | None, typer.Option("--nodes", metavar="N", help="Nodes of it, instead of --procs.")] = None,
    cores_per_node: Annotated[
        int, typer.Option("--cores-per-node", metavar="C", help="Above 1, jobs get whole nodes.")
    ] = 1,
    policy: Annotated[
        str,
        typer.Option("--policy", metavar="P[,P...]", help=f"{', '.join(POLICIES)}; of a trace also compressed."),
    ] = "",
    order: Annotated[str | None, typer.Option("--order", metavar="O", help="Order of the queue, or queues.")] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", metavar="N", help="Replay the first N jobs of a trace.")] = None,
    since: Annotated[str | None, typer.Option("--since", metavar="D", help="Jobs of the past from this date.")] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="D", help="Jobs of the past up to this date.")] = None,
    quotas: Annotated[
        str | None, typer.Option("--quotas", metavar="FILE|none", help="Other quotas for the past: JSON, or none.")
    ] = None,
    rules: Annotated[
        Path | None, typer.Option("--rules", metavar="DIR", help="Other admission rules for the past: NN_name.py.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", metavar="CSV", help="Write one line a job.")] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw the Gantt chart, SVG or PNG (extra plots).")
    ] = None,
    steps: Annotated[
        int | None, typer.Option("--steps", metavar="N", min=0, help="Print the state of a trace after N events.")
    ] = None,
    log: Annotated[
        str | None, typer.Option("--log", metavar="FILE", help="Write a line of JSON for each event of a trace.")
    ] = None,
    places: Annotated[bool, typer.Option("--places", help=_PLACES)] = False,
    written: Annotated[
        Path | None,
        typer.Option("--write", metavar="FILE", help="Write the past as a scenario of oarpy grid simulate."),
    ] = None,
    names: Annotated[bool, typer.Option("--names", help="With the names of users in it.")] = False,
    prediction: Annotated[
        str,
        typer.Option("--prediction", metavar="P[,P...]", help="Plan a trace by walltime, last2, similar or perfect."),
    ] = "",
    web: Annotated[bool, typer.Option("--web", help=_WEB)] = False,
    port: Annotated[int | None, typer.Option("--port", metavar="N", min=0, max=65535, help=_PORT)] = None,
    as_json: Json = False,
) -> None:
    """Replay a trace, or this site's own past, in virtual time under one or more policies and compare them."""
    from oarpy.client.past.simulation import SimulationOptions, simulate, source_of

    options = SimulationOptions(
        trace=trace,
        from_database=from_database,
        procs=procs,
        nodes=nodes,
        cores_per_node=cores_per_node,
        policies=tuple(word.strip() for word in policy.split(",") if word.strip()),
        order=order,
        jobs=jobs,
        since=since,
        until=until,
        quotas=quotas,
        rules=rules,
        output=output,
        plot=plot,
        steps=steps,
        places=places,
        log=log,
        write=written,
        names=names,
        as_json=as_json,
        predictions=tuple(word.strip() for word in prediction.split(",") if word.strip()),
    )
    _check_port(web, port)
    raise typer.Exit(_serve_stepping([source_of(options)], port) if web else simulate(options))


def _check_port(web: bool, port: int | None) -> None:
    if port is not None and not web:
        raise UsageError("--port does not go without --web", hint="add --web")


def _serve_stepping(sources: Sequence[Source], port: int | None) -> int:
    """Serve the page that steps through scenarios or a trace, until Ctrl-C."""
    try:
        from oarpy.web.stepping.serving import serve
    except ModuleNotFoundError as error:
        raise UsageError(f"the web needs {error.name}", hint="pip install 'oarpy-scheduler[web]'") from None
    return serve(sources, port or 0)


@app.command()
def generate(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="lublin, lublin-batch, esp2, ...")],
    procs: Annotated[int, typer.Option("--procs", metavar="N", help="Processors of the machine.")],
    jobs: Annotated[int, typer.Option("--jobs", metavar="N", help="How many jobs.")] = 10_000,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same jobs.")] = 1,
    output: Annotated[Path | None, typer.Option("--output", metavar="FILE", help="Instead of standard output.")] = None,
) -> None:
    """Write a made-up workload in Standard Workload Format, to be simulated."""
    from oarpy.simulation.workloads.generate import run_generate

    raise typer.Exit(run_generate(kind, procs, jobs=jobs, seed=seed, output=output))


@app.command()
def demo(
    directory: Annotated[Path, typer.Option("--directory", help="Where the demo cluster lives.")] = Path(".oarpy/demo"),
    negotiate: Annotated[
        bool, typer.Option("--negotiate", help="Applications that choose their hosts, grow and shrink; needs dask.")
    ] = False,
    gpus: Annotated[bool, typer.Option("--gpus", help="Jobs on GPUs, one of them idle; needs no GPU.")] = False,
    mapping: Annotated[
        bool, typer.Option("--mapping", help="Processes mapped over nodes of two speeds, by measured rates.")
    ] = False,
) -> None:
    """Run jobs of every kind for real on a cluster on this machine, print the transcript, stop cleanly."""
    if gpus and negotiate:
        raise UsageError("--gpus and --negotiate are two demos", hint="leave one of them out")
    if gpus:
        from oarpy.local_cluster.gpu_demo import run_gpu_demo

        run_gpu_demo(directory.resolve())
        return
    if negotiate:
        from oarpy.negotiation.local.demo import run_negotiation_demo

        run_negotiation_demo(directory.resolve())
        return
    if mapping:
        from oarpy.local_cluster.mapping_demo import run_mapping_demo

        run_mapping_demo(directory.resolve())
        return
    from oarpy.local_cluster.demo import run_demo

    run_demo(directory.resolve())


@app.command(
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
    short_help="Measure: main_job, planning, simulation, agent, ...",
)
def bench(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Which measurement; its own options follow. Alone: a list.")
    ] = None,
) -> None:
    """Run a measurement on this machine and print its table, in a checkout; the result is saved as JSON too."""
    from oarpy.commands.checkout import research

    measurements = research("benchmarks").MEASUREMENTS
    if name in (None, "-h", "--help"):
        lines = "".join(f"  {measurement:<11} {what}\n" for measurement, what in measurements.items())
        write(f"Usage: oarpy bench NAME [OPTIONS]; oarpy bench NAME --help shows the options.\n\n{lines}")
        return
    if name not in measurements:
        raise NotFound(f"no measurement '{name[:40]}'", hint=", ".join(measurements))
    raise typer.Exit(research(f"benchmarks.{name}").main(context.args))


@app.command("try", context_settings={"allow_interspersed_args": False})
def try_cluster(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[COMMAND]...", help="What to run there; default a shell.")
    ] = None,
    directory: Annotated[Path, typer.Option("--directory", help="The folder that keeps the cluster.")] = Path(
        "~/.oarpy/try"
    ),
) -> None:
    """Start a cluster of four nodes on this machine, with its page, and open a shell for it; exit stops it."""
    from oarpy.local_cluster.own_cluster import try_cluster as run_there

    raise typer.Exit(run_there(directory.expanduser().resolve(), words or ()))


@app.command()
def web(
    listen: Annotated[
        str | None,
        typer.Option("--listen", metavar="PLACE", help="Path of a Unix socket, or host:port; default web.listen."),
    ] = None,
) -> None:
    """Serve REST and the pages until SIGTERM or Ctrl-C."""
    from dataclasses import replace

    from oarpy.configuration import load

    try:
        from oarpy.web.serving import serve
    except ModuleNotFoundError as error:
        raise UsageError(f"the web needs {error.name}", hint="pip install 'oarpy-scheduler[web]'") from None
    configuration = load()
    if listen is not None:
        configuration = replace(configuration, web=replace(configuration.web, listen=listen))
    serve(configuration)


@app.command()
def server() -> None:
    """Run all modules, and the embedded database if that is the configured one, until SIGTERM or Ctrl-C."""
    from oarpy.configuration import load
    from oarpy.modules import supervisor

    raise typer.Exit(supervisor.serve(load()))


@app.command("run")
def run_module(
    module: Annotated[str, typer.Argument(metavar="MODULE", help="automaton, metascheduler, launcher, ...")],
    once: Annotated[bool, typer.Option("--once", help="Work once and say what was done.")] = False,
) -> None:
    """Run one module, by itself."""
    from oarpy.configuration import load
    from oarpy.modules import registry

    raise typer.Exit(registry.run(module, load(), once=once))


def main() -> None:
    """Run the command on the arguments of the process. What users need of it goes through the gateway."""
    if sys.argv[1:2] == ["token"]:
        from oarpy.frontend import entry

        del sys.argv[1]
        entry.oartoken()
    run(app, "oarpy")
