"""The command `onednn-graph`: a table of commands, each a thin cover of a module of this package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from onednn_graph.graph.compiled_graph import label
from onednn_graph.graph.description import DescribedPartition, GraphDescription, describe
from onednn_graph.graph.profiling import profile
from onednn_graph.ops.errors import ArgumentError, ArgumentTypeError, UnknownOpError
from onednn_graph.ops.registry import REGISTRY
from onednn_graph.tools.bench import Benchmark, bench, single_op_graph
from onednn_graph.tools.check import check
from onednn_graph.tools.compare import Compared, ComparedOutput, compare_graph
from onednn_graph.tools.console import (
    Exit,
    command,
    console,
    emit_json,
    errors,
    failure,
    loaded,
    milliseconds,
    table,
)
from onednn_graph.tools.data_files import inputs_of, save_outputs
from onednn_graph.tools.information import information
from onednn_graph.tools.op_page import has_primitive, op_data, op_page
from rich.markdown import Markdown

VERBATIM = {"ignore_unknown_options": True, "allow_interspersed_args": False}
"""For commands that take options of their own syntax: they get their arguments as they were written."""

CHECK_HELP = """Run graphs from JSON files and compare their results with a reference.

The settings are those of benchdnn's graph driver. They hold for the files after them until --reset; a list
with commas makes a case of each element.

\b
--case=FILE                          the same as FILE
--batch=FILE                         take arguments from a file; # starts a comment
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
--backend=NAME                       run on that backend only
--seed=N                             another seed of the data
-v, --verbose=N                      compare the tensors inside the graph too

Other options of benchdnn (--mode, --engine, --skip-impl, …) are accepted and change nothing.

\b
Examples:
  onednn-graph check conv.json
  onednn-graph check --mb=1,8 --dt=bf16 conv.json
  onednn-graph check --in-shapes=0:2x28x28x32 --op-attrs=0:data_format:NXC --case=op/f32/conv_2d.json
  onednn-graph check --in-shapes=0:8x16x384x64*acbd sdpa.json
  onednn-graph check --batch=harness_ci

The exit code is 1 if a graph fails and 2 for a command line that makes no sense.
"""

app = typer.Typer(
    name="onednn-graph",
    help="oneDNN Graph for Python, from the command line.",
    epilog="Exit codes: 0 all is well, 1 something failed or is unsupported, 2 the command line makes no sense.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

File = Annotated[Path, typer.Argument(metavar="FILE", help="A graph in oneDNN Graph's JSON format.")]
Backend = Annotated[str | None, typer.Option(help="Run on that backend only.")]
Json = Annotated[bool, typer.Option("--json", help="Write JSON for scripts instead of tables.")]
Seed = Annotated[int, typer.Option(help="Of the data that is made up.")]


@app.callback()
def _commands() -> None:
    """OneDNN Graph for Python, from the command line."""


@app.command("ops")
@command
def _ops(
    name: Annotated[str | None, typer.Argument(help="A kind or legacy name; all ops if left out.")] = None,
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
            (s.kind, ", ".join(a.kind for a in s.aliases), s.family, "oneDNN" if has_primitive(s.kind) else "NumPy",
             s.summary)
            for s in REGISTRY
        ]  # fmt: skip
        table("", ("op", "legacy names", "family", "runs on", "what it does"), rows)
        return
    try:
        schema = REGISTRY.resolve(name)[0]
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
    as_json: Json = False,
) -> None:
    """Show a graph's ops and tensors, its partitions, and who runs them and why.

    \b
    Examples:
      onednn-graph show graph.json
      onednn-graph show graph.json --html graph.html
    """
    graph = loaded(file)
    described = describe(graph, backend=backend)
    if html is not None:
        graph.to_html(html, backend=backend)
    if dot is not None:
        graph.to_dot(dot, backend=backend)
    if as_json:
        emit_json(described.as_data())
    else:
        _print_graph(described)


def _print_graph(graph: GraphDescription) -> None:
    tensors = {tensor.id: tensor for tensor in graph.tensors}
    table(
        f"{len(graph.ops)} ops",
        ("id", "op", "name", "inputs", "outputs", "attributes", "partition"),
        [
            (
                op.id,
                op.kind,
                op.name,
                ", ".join(f"{port}={tensors[t].name}" for port, t in op.inputs),
                ", ".join(f"{port}={tensors[t].name}" for port, t in op.outputs),
                ", ".join(f"{name}={_short(value)}" for name, value in op.attributes.items()),
                op.partition,
            )
            for op in graph.ops
        ],
    )
    table(
        f"{len(tensors)} tensors",
        ("id", "name", "type and shape", "strides", "property", "role"),
        [
            (t.id, t.name, t.text, "" if t.strides is None else _short(t.strides),
             "" if t.property_type == "undef" else t.property_type, t.role)
            for t in graph.tensors
        ],
    )  # fmt: skip
    table(
        f"{len(graph.partitions)} partitions",
        ("id", "ops", "backend", "how", "kernels", "scratch", "why no other"),
        [
            (p.id, p.label, p.backend or "none", p.problem or p.strategy, "\n".join(s.name for s in p.steps),
             "" if p.scratch_bytes is None else f"{p.scratch_bytes / 2**20:.1f} MiB", _reasons(p))
            for p in graph.partitions
        ],
    )  # fmt: skip


def _short(value: object) -> str:
    if isinstance(value, list | tuple):
        return "x".join(map(str, value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return str(value)


def _reasons(partition: DescribedPartition) -> str:
    return "\n".join(f"{name}: {reason}" for name, reason in partition.why_not.items())


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
      onednn-graph run graph.json --trace trace.json
    """
    graph = loaded(file)
    model = graph.compile(backend=backend)
    arrays = inputs_of(graph, inputs, seed)
    results = dict(model(arrays))
    with profile() as prof:
        if profiled or trace is not None:
            model(arrays)
    if outputs is not None:
        save_outputs(outputs, results)
    if trace is not None:
        prof.save_trace(trace)
    summary = {
        name: {
            "data_type": str(array.dtype), "shape": list(array.shape), "min": float(array.min(initial=0)),
            "max": float(array.max(initial=0)), "mean": float(array.astype("f8").mean()) if array.size else None,
        }
        for name, array in results.items()
    }  # fmt: skip
    if as_json:
        emit_json({"outputs": summary, "partitions": [str(partition) for partition in model.partitions]})
        return
    table(
        "outputs",
        ("name", "type", "shape", "min", "max", "mean"),
        [
            (name, s["data_type"], _short(s["shape"]) or "scalar", f"{s['min']:g}", f"{s['max']:g}",
             "" if s["mean"] is None else f"{s['mean']:g}")
            for name, s in summary.items()
        ],
        right=("min", "max", "mean"),
    )  # fmt: skip
    if prof.events:
        console.print(str(prof), markup=False, highlight=False, soft_wrap=True)


@app.command("check", help=CHECK_HELP, context_settings=VERBATIM)
def _check(
    arguments: list[str] = typer.Argument(  # noqa: B008 -- typer's way
        ..., metavar="[SETTINGS] FILE.json [[SETTINGS] FILE.json …]", show_default=False
    ),
) -> None:
    try:
        code = check(arguments, typer.echo)
    except (ArgumentError, ArgumentTypeError) as error:
        typer.echo(f"onednn-graph check: {error}", err=True)
        raise typer.Exit(Exit.usage) from error
    raise typer.Exit(code)


@app.command("bench")
@command
def _bench(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="A graph; or give --op.")] = None,
    op: Annotated[str | None, typer.Option(help="Time this op alone.")] = None,
    inputs: Annotated[
        list[str] | None, typer.Option("--in", metavar="TYPE:SHAPE", help="An input of --op; once for each.")
    ] = None,
    attributes: Annotated[
        list[str] | None,
        typer.Option("--attr", metavar="NAME=VALUE", help="An attribute of --op; x joins lists."),
    ] = None,
    backend: Backend = None,
    tune: Annotated[bool, typer.Option(help="Measure the candidates of weight gradients first.")] = False,
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
    if not seconds > 0:
        raise failure(f"--seconds must be above 0, got {seconds}", Exit.usage)
    graph = loaded(file) if file is not None else single_op_graph(str(op), inputs or [], attributes or [])
    model = graph.compile(backend=backend, tune="measure" if tune else None)
    arrays = inputs_of(graph, None, seed)
    with errors.status("timing …"):
        result = bench(graph, model, arrays, seconds=seconds, peak=peak)
    if as_json:
        emit_json(result.as_data())
    else:
        _print_benchmark(result)


def _print_benchmark(result: Benchmark) -> None:
    data, timing = result.as_data(), result.timing

    def share(key: str) -> str:
        value = data[key]
        return "" if value is None else f"{value:.0%} of what this machine was seen to do"

    rows = [
        ("time", f"{timing.least * 1e3:.3f} / {timing.median * 1e3:.3f} / {timing.most * 1e3:.3f} ms",
         f"min / median / max of {timing.runs} runs"),
        ("GFLOP/s", f"{data['flops_per_second'] / 1e9:.1f}", share("share_of_peak_flops")),
        ("GB/s", f"{data['bytes_per_second'] / 1e9:.1f}", share("share_of_peak_bandwidth")),
    ]  # fmt: skip
    table("", ("", "at the least time", ""), [row for row in rows if row[0] != "GFLOP/s" or result.flops])
    console.print(str(result.profile), markup=False, highlight=False, soft_wrap=True)


@app.command("compare")
@command
def _compare(
    file: File,
    backend: Backend = None,
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
    graph = loaded(file)
    with errors.status("running both …"):
        result = compare_graph(graph, seed=seed, seconds=seconds, backend=backend)
    if as_json:
        emit_json(result.as_data())
    else:
        _print_compared(result)
    if not result.ok:
        raise typer.Exit(Exit.failed)


def _print_compared(result: Compared) -> None:
    native = result.native
    mine, theirs = (
        {i: number for number, ids in enumerate(partitions) for i in ids}
        for partitions in (result.partitions, native.partitions)
    )
    table(
        f"partitions: {len(result.partitions)} by us, {len(native.partitions)} by native",
        ("op", "kind", "our partition", "native's"),
        [(i, kind, mine.get(i), theirs.get(i)) for i, kind in result.kinds.items()],
    )
    table("our kernels", ("partition", "kernels"), list(enumerate(result.told)))
    if native.kernels:
        table("native's kernels", ("",), [(kernel,) for kernel in native.kernels])
    table(
        "largest differences",
        ("output", "ours − native", "ours − reference", "native − reference", ""),
        [
            (label(o.tensor), _largest(o.apart), _largest(o.ours and o.ours.difference),
             _largest(o.native and o.native.difference), _verdict(o))
            for o in result.outputs
        ],
        right=("ours − native", "ours − reference", "native − reference"),
    )  # fmt: skip
    rows = [(who, milliseconds(t.least), milliseconds(t.median), t.runs)
            for who, t in (("ours", result.ours), ("native", native.native)) if t is not None]  # fmt: skip
    if result.ratios is not None:
        rows.append(("native ÷ ours", f"{result.ratios[0]:.2f}", f"{result.ratios[1]:.2f}", 0))
    table("", ("ms", "min", "median", "runs"), [(*row[:3], row[3] or "") for row in rows],
          right=("min", "median", "runs"))  # fmt: skip
    for problem in (
        f"native: {native.problem}" if native.problem else "",
        result.unjudged and f"no reference: {result.unjudged}",
    ):
        if problem:
            console.print(problem, markup=False, highlight=False, soft_wrap=True)


def _largest(difference: float | None) -> str:
    return "" if difference is None else f"{difference:.3g}"


def _verdict(output: ComparedOutput) -> str:
    wrong = [
        f"{who} is wrong: {found.message}"
        for who, found in (("ours", output.ours), ("native", output.native))
        if found is not None and not found.ok
    ]
    return "\n".join(wrong)


@app.command("tune")
@command
def _tune(
    file: File,
    seconds: Annotated[float, typer.Option(help="For all partitions together.")] = 30.0,
    as_json: Json = False,
) -> None:
    """Measure the ways to run a graph's weight gradients and remember the fastest.

    Programs that compile with tune="cached" take what is remembered.

    \b
    Example:
      onednn-graph tune graph.json --seconds 10
    """
    graph = loaded(file)
    found = graph.tune(seconds)
    labels = {partition.id: partition.label for partition in graph.get_partitions()}
    if as_json:
        emit_json({
            str(number): None if one is None else {
                "ops": labels[number], "strategy": one.strategy, "kernels": one.implementations,
                "considered": [
                    {"strategy": c.strategy, "measured_seconds": c.measured_seconds,
                     "estimated_seconds": c.estimated_seconds, "scratch_bytes": c.scratch_bytes}
                    for c in one.considered
                ],
            }
            for number, one in found.items()
        })  # fmt: skip
        return
    rows: list[tuple[object, ...]] = []
    for number, one in found.items():
        if one is None:
            rows.append((number, labels[number], "shapes are known only at execution", "", ""))
        elif not one.considered:
            rows.append((number, labels[number], one.strategy, "", "there is nothing to choose"))
        for candidate in () if one is None else one.considered:
            chosen = one is not None and candidate.strategy == one.strategy
            rows.append((
                number, labels[number], candidate.strategy, milliseconds(candidate.measured_seconds),
                "chosen" if chosen else "",
            ))  # fmt: skip
    table("", ("partition", "ops", "strategy", "ms", ""), rows, right=("ms",))


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
        table("", ("", ""), [(key, _lines(value)) for key, value in data.items()])


def _lines(value: object) -> str:
    """A value, or one line for each of several."""
    if not isinstance(value, dict):
        return str(value)
    return "\n".join(f"{key}: {one}" for key, one in value.items()) or "none"  # pyright: ignore[reportUnknownVariableType]


@app.command("view")
@command
def _view(
    file: File,
    port: Annotated[int, typer.Option(help="Of the page on this machine; 0 for any that is free.")] = 0,
    browse: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
) -> None:
    """Open a graph in Netron; ends with Ctrl-C.

    \b
    Example:
      onednn-graph view graph.json
    """
    from onednn_graph.tools.viewing import view

    loaded(file)  # a bad file is named here, with its reason
    view(
        file,
        port,
        browse=browse,
        say=lambda text: errors.print(text, markup=False, highlight=False, soft_wrap=True),
    )
