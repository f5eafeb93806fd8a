"""The command `onednn-graph`: a table of commands, each a thin cover of a module of this package."""

from __future__ import annotations

import typer
from onednn_graph.ops.errors import ArgumentError, ArgumentTypeError
from onednn_graph.tools.check import check

USAGE_ERROR = 2
"""Exit code for a command line that makes no sense."""

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
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@app.callback()
def _commands() -> None:
    """OneDNN Graph for Python, from the command line."""


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
        raise typer.Exit(USAGE_ERROR) from error
    raise typer.Exit(code)
