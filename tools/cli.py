"""The command `onednn-graph`: a table of commands, each a thin cover of a module of this package."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.markdown import Markdown

from ..graph.graph import Graph
from ..graph.model.logical_tensor import label
from ..graph.pictures.description import describe
from ..graph.pictures.profile import profile
from ..ops.errors import UnknownOpError
from ..ops.registry import REGISTRY
from .arguments import Backend, File, Json, Seed, Shapes, Threads
from .bench import bench, single_op_graph
from .benchdnn.check import check
from .compare import compare_graph
from .console import command, console, emit_json, failure, table, working
from .convert import convert
from .data_files import given_arrays, inputs_of, save_outputs
from .doctor.command import doctor
from .ending import Exit
from .graph_files import GraphFile, check_sizes, loaded, parse_shapes
from .information import information
from .library.command import library
from .op_page import has_primitive, kind_of, op_data, op_page
from .profiled import profiled_run
from .staging import nodes_of, runnable, summary
from .tables import (
    lines_of,
    print_benchmark,
    print_compared,
    print_graph,
    print_profile,
    say_made_up,
    short,
)
from .trust import trust
from .tune import tune_graph, tune_machine
from .usage import Commands

VERBATIM = {"ignore_unknown_options": True, "allow_interspersed_args": False}
"""For commands that take options of their own syntax: they get their arguments as they were written."""

CHECK_HELP = """Run graphs from files and compare their results with a reference.

A FILE is oneDNN Graph's JSON, an ONNX model, or - for standard input.

The settings are those of benchdnn's graph driver. They hold for the files after them until --reset; a list
with commas makes a case of each element.

\b
--case=FILE                          the same as FILE
--batch=FILE                         take arguments from a file, or - for standard input; # starts a comment
--reset                              forget all settings
--in-shapes=ID:SHAPE[*LAYOUT][+…]    shapes of inputs; a layout is a tag (acdb) or strides (64x1x8x2)
--op-attrs=ID:NAME:VALUE[*…][+…]     attributes of ops; x stands between the elements of a list
--op-kind=ID:KIND[+…]                another kind of the same family, or undef to remove the op
--dt=TYPE, --dt=ID:TYPE[+…]          data types of all floating-point tensors, or of single ones
--mb=N                               size of the batch
--tensor-property=ID:PROPERTY[+…]    undef, variable, constant or host_scalar
--attr-fpmath=MODE[:BOOL]            strict, bf16, f16, tf32 or any
--expected-n-partitions=N            how many partitions are expected, 0 for any number
--corpus=FOLDER                      look paths up there too
--backend=NAME                       run on that backend only: onednn, numpy or native
--seed=N                             another seed of the data, 0 or more
-v, --verbose=N                      compare the tensors inside the graph too
--json                               write JSON for scripts instead of lines

Other options of benchdnn (--mode, --engine, --skip-impl, …) are accepted and change nothing.

\b
Examples:
  onednn-graph check conv.json
  onednn-graph check --mb=1,8 --dt=bf16 conv.json
  onednn-graph check --in-shapes=0:2x28x28x32 --op-attrs=0:data_format:NXC --case=op/f32/conv_2d.json
  onednn-graph check --in-shapes=0:8x16x384x64*acbd sdpa.json
  onednn-graph check --batch=harness_ci
  onednn-graph check model.onnx

The exit code is 1 if a graph fails and 2 for a command line that makes no sense.
"""

app = typer.Typer(
    name="onednn-graph",
    cls=Commands,
    help="oneDNN Graph for Python, from the command line.",
    epilog="Exit codes: 0 all is well, 1 something failed or is unsupported, 2 the command line or a file is wrong, "
    "130 interrupted by Ctrl-C, 141 nobody reads the output any more.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


app.add_typer(trust, name="trust")
app.add_typer(library, name="library")
app.command("doctor")(doctor)
app.command("convert")(convert)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"onednn-graph {version('onednn-graph')}")
        raise typer.Exit


@app.callback()
def _commands(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Say which version this is."),
    ] = False,
    _threads: Threads = None,
) -> None:
    """OneDNN Graph for Python, from the command line."""


def _complete_op(begun: str) -> list[str]:
    """Kinds that begin so, for shells."""
    return [schema.kind for schema in REGISTRY if schema.kind.lower().startswith(begun.lower())]


@app.command("ops")
@command
def _ops(
    name: Annotated[
        str | None,
        typer.Argument(
            help="A kind, legacy name or function; all ops if left out.", autocompletion=_complete_op
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the ops, or show the page of one.

    \b
    Examples:
      onednn-graph ops
      onednn-graph ops ConvolutionBackwardWeights
      onednn-graph ops --json | jq '.[] | select(.onednn | not) | .kind'
    """
    if name is None:
        if as_json:
            emit_json([op_data(schema) for schema in REGISTRY])
            return
        rows = [
            (
                s.kind,
                ", ".join(a.kind for a in s.aliases),
                s.family,
                "oneDNN" if has_primitive(s.kind) else "NumPy",
                s.summary,
            )
            for s in REGISTRY
        ]
        table("", ("op", "legacy names", "family", "runs on", "what it does"), rows)
        return
    try:
        schema = REGISTRY.resolve(kind_of(name))[0]
    except UnknownOpError as error:
        raise failure(error, Exit.usage) from error
    if as_json:
        emit_json(op_data(schema))
    else:
        console.print(Markdown(op_page(schema)))


@app.command("show")
@command
def _show(
    file: File,
    backend: Backend = None,
    dot: Annotated[Path | None, typer.Option(help="Write the graph for Graphviz to this file.")] = None,
    html: Annotated[Path | None, typer.Option(help="Draw the graph into this page.")] = None,
    profiled: Annotated[
        bool, typer.Option("--profile", help="Run it on made-up data, and colour the page by time.")
    ] = False,
    partitioning: Annotated[
        bool,
        typer.Option(
            "--partitioning",
            help="Show how it came to its partitions: who was asked for which ops, step by step.",
        ),
    ] = False,
    shapes: Shapes = None,
    everything: Annotated[
        bool,
        typer.Option(
            "--all", help="Show all rows, and all of each; in a pipe, lines are as long as they are then."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Show a graph's ops and tensors, its partitions, and who runs them and why.

    \b
    Examples:
      onednn-graph show graph.json
      onednn-graph show model.onnx --html graph.html --profile --shape image=1x3x224x224
      onednn-graph show model.onnx --all | grep Convolution
      onednn-graph show model.onnx --partitioning
    """
    if profiled and html is None:
        raise failure(
            "--profile colours a page; give --html FILE, or take onednn-graph run --profile", Exit.usage
        )
    with working(f"reading {file}"):
        graph = loaded(file, shapes or ())
    described = describe(graph, backend=backend)
    if html is not None:
        times = profiled_run(graph, backend) if profiled else None
        graph.to_html(html, backend=backend, profile=times)
    if dot is not None:
        graph.to_dot(dot, backend=backend)
    if as_json:
        emit_json(described.as_data())
    else:
        print_graph(described, whole=everything, partitioning=partitioning)


@app.command("run")
@command
def _run(
    file: File,
    inputs: Annotated[
        Path | None,
        typer.Option(help="An .npz file with arrays by the inputs' names or ids; others are made up."),
    ] = None,
    outputs: Annotated[Path | None, typer.Option(help="Write the outputs to this .npz file.")] = None,
    backend: Backend = None,
    shapes: Shapes = None,
    seed: Seed = 0,
    profiled: Annotated[
        bool, typer.Option("--profile", help="Run once more and show where the time goes.")
    ] = False,
    trace: Annotated[Path | None, typer.Option(help="Write a Chrome trace to this file; profiles.")] = None,
    as_json: Json = False,
) -> None:
    """Run a graph on arrays from a file, or on made-up ones.

    \b
    Examples:
      onednn-graph run graph.json
      onednn-graph run graph.json --inputs in.npz --outputs out.npz
      onednn-graph run model.onnx --shape image=1x3x224x224
      onednn-graph run graph.json --trace trace.json
    """
    with working(f"reading {file}"):
        read = GraphFile.at(file).graph()
        given = given_arrays(read, inputs)
        # Sizes that are open are those of the arrays.
        sizes = {
            label(t): given[label(t)].shape for t in read.inputs if label(t) in given and not t.is_concrete
        }
        graph = runnable(read, sizes | parse_shapes(shapes or ()), str(file))
        if len(given) < len(graph.inputs) and isinstance(graph, Graph):
            check_sizes(graph)
        feeds = inputs_of(graph, given, seed)
    if feeds.made_up:
        say_made_up(graph, feeds.made_up, seed)
    model = graph.compile(backend=backend)
    with working("running"):
        results = dict(model(feeds.arrays))
        with profile() as prof:
            if profiled or trace is not None:
                model(feeds.arrays)
    if outputs is not None:
        save_outputs(outputs, results)
    if trace is not None:
        prof.save_trace(trace)
    told = {name: summary(value) for name, value in results.items()}
    nodes = nodes_of(model)
    if as_json:
        data = {"outputs": told, "partitions": [str(partition) for partition in model.partitions]}
        emit_json(data | ({"nodes": nodes} if nodes else {}))
        return
    table(
        "outputs",
        ("name", "type", "shape", "min", "max", "mean"),
        [
            (
                name,
                s["data_type"],
                "" if s["shape"] is None else short(s["shape"]) or "scalar",
                *("" if number is None else f"{number:g}" for number in (s["min"], s["max"], s["mean"])),
            )
            for name, s in told.items()
        ],
        right=("min", "max", "mean"),
    )
    if nodes:
        table("nodes that ran by themselves", ("node", "times"), list(nodes.items()), right=("times",))
    if prof.events:
        print_profile(prof)


@app.command("check", help=CHECK_HELP, context_settings=VERBATIM)
@command
def _check(
    arguments: list[str] = typer.Argument(  # noqa: B008 -- typer's way
        ..., metavar="[SETTINGS] FILE [[SETTINGS] FILE …]", show_default=False
    ),
) -> None:
    code = check(arguments, typer.echo, working, emit_json)
    if code:
        raise typer.Exit(code)


@app.command("bench")
@command
def _bench(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="A graph; or give --op.")] = None,
    op: Annotated[str | None, typer.Option(help="Time this op alone.", autocompletion=_complete_op)] = None,
    inputs: Annotated[
        list[str] | None, typer.Option("--in", metavar="TYPE:SHAPE", help="An input of --op; once for each.")
    ] = None,
    attributes: Annotated[
        list[str] | None,
        typer.Option("--attr", metavar="NAME=VALUE", help="An attribute of --op; x joins lists."),
    ] = None,
    backend: Backend = None,
    shapes: Shapes = None,
    tune: Annotated[
        bool, typer.Option(help="Measure the ways to run convolutions and products first.")
    ] = False,
    seconds: Annotated[float, typer.Option(help="How long to run it.")] = 1.0,
    peak: Annotated[bool, typer.Option(help="Measure what the machine can do, for the shares.")] = True,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Time a graph, or one op: milliseconds, GFLOP/s, GB/s, and shares of the machine's peak.

    \b
    Examples:
      onednn-graph bench graph.json
      onednn-graph bench --op MatMul --in f32:512x512 --in f32:512x512
      onednn-graph bench --op ConvolutionBackwardWeights --in bf16:16x56x56x64 --in bf16:16x56x56x64 \\
        --attr strides=1x1 --attr pads_begin=1x1 --attr pads_end=1x1 --attr dilations=1x1 --attr weights_shape=3x3x64x64
    """
    if (file is None) == (op is None):
        raise failure("bench takes a FILE or --op, one of them", Exit.usage)
    if op is not None and shapes:
        raise failure("--shape is for a FILE; --in has the sizes of --op", Exit.usage)
    if file is not None and (inputs or attributes):
        raise failure("--in and --attr are for --op; a FILE has its own", Exit.usage)
    if not seconds > 0:
        raise failure(f"--seconds must be above 0, got {seconds}", Exit.usage)
    with working(f"reading {file}" if op is None else f"making {op}"):
        if file is not None:
            graph = runnable(GraphFile.at(file).graph(), parse_shapes(shapes or ()), str(file))
        else:
            graph = single_op_graph(str(op), inputs or [], attributes or [])
        if isinstance(graph, Graph):
            check_sizes(graph)
        feeds = inputs_of(graph, {}, seed)
    model = graph.compile(backend=backend, tune="measure" if tune else None)
    with working("timing"):
        result = bench(graph, model, feeds.arrays, seconds=seconds, peak=peak)
    if as_json:
        emit_json(result.as_data())
    else:
        print_benchmark(result)


@app.command("compare")
@command
def _compare(
    file: File,
    backend: Backend = None,
    shapes: Shapes = None,
    seconds: Annotated[float, typer.Option(help="How long to run both.")] = 1.0,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Show a graph by us beside native oneDNN Graph: partitions, results and times.

    Native runs in a process of its own. If it crashes, can't run the graph or is wrong, that is shown; the exit code
    is 1 only if our own results are wrong.

    \b
    Examples:
      onednn-graph compare graph.json
      onednn-graph compare graph.json --seconds 5 --json
    """
    if not seconds > 0:
        raise failure(f"--seconds must be above 0, got {seconds}", Exit.usage)
    with working(f"reading {file}"):
        graph = loaded(file, shapes or ())
        check_sizes(graph)
    with working("running both"):
        result = compare_graph(graph, seed=seed, seconds=seconds, backend=backend)
    if as_json:
        emit_json(result.as_data())
    else:
        print_compared(result)
    if not result.ok:
        raise typer.Exit(Exit.failed)


@app.command("compile")
@command
def _compile(
    file: File,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="OUT", help="The file to write.")],
    backend: Backend = None,
    shapes: Shapes = None,
) -> None:
    """Compile a graph into a file, which og.Graph.load_compiled maps, with its packed weights.

    \b
    Example:
      onednn-graph compile model.onnx -o model.ogc
    """
    with working(f"compiling {file}"):
        loaded(file, shapes or ()).compile(backend=backend).save_compiled(output)


@app.command("tune")
@command
def _tune(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="A graph; or give --machine.")] = None,
    shapes: Shapes = None,
    seconds: Annotated[
        float | None,
        typer.Option(help="For all partitions together, 30 by default; with --machine at most 600, and 300."),
    ] = None,
    machine: Annotated[
        bool, typer.Option("--machine", help="Fit the cost data of weight gradients to this machine.")
    ] = False,
    forget: Annotated[
        bool, typer.Option("--forget", help="With --machine: go back to the package's cost data.")
    ] = False,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Measure the ways to run weight gradients, convolutions and products; remember the fastest.

    Programs that compile with tune="cached" or tune="online" take what is remembered. With --machine, random layers are
    measured, and the data by which weight gradients are chosen are fitted to this machine: every program takes them
    from then on, whatever it compiles. Ctrl-C ends the measuring and keeps what is there.

    \b
    Examples:
      onednn-graph tune graph.json --seconds 10
      onednn-graph tune --machine
      onednn-graph tune --machine --forget
    """
    if (file is None) != machine:
        raise failure("tune takes a FILE or --machine, one of them", Exit.usage)
    if forget and not machine:
        raise failure("--forget goes with --machine", Exit.usage)
    if seconds is not None and not seconds > 0:
        raise failure(f"--seconds must be above 0, got {seconds}", Exit.usage)
    if file is None:
        tune_machine(seconds, seed, forget=forget, as_json=as_json)
    else:
        tune_graph(file, shapes or (), 30.0 if seconds is None else seconds, as_json=as_json)


@app.command("info")
@command
def _info(as_json: Json = False) -> None:
    """Say which library, instruction set, threads and caches are used.

    \b
    Example:
      onednn-graph info --json
    """
    data = information()
    if as_json:
        emit_json(data)
    else:
        table("", ("", ""), [(key, lines_of(value)) for key, value in data.items()])


@app.command("view")
@command
def _view(
    file: File,
    port: Annotated[int, typer.Option(help="Of the page on this machine; 0 for any that is free.")] = 0,
    browse: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
) -> None:
    """Open a graph or an ONNX model in Netron; ends with Ctrl-C.

    \b
    Examples:
      onednn-graph view graph.json
      onednn-graph view model.onnx --no-browse --port 8080
    """
    from .viewing import view

    view(GraphFile.at(file), port, browse=browse, say=lambda text: typer.echo(text, err=True))
