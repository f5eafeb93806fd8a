"""The command `onednn-graph doctor`; what it needs is imported when it is called."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..arguments import all_threads
from ..console import command, emit_json, plainly, table, working
from ..ending import Exit


@command
def doctor(
    subject: Annotated[
        str,
        typer.Argument(metavar="SUBJECT", help="model.py, model.py:NAME, package.module:NAME or model.onnx."),
    ],
    inputs: Annotated[
        Path | None, typer.Option(help="An .npz file with arrays by the inputs' names, or in their order.")
    ] = None,
    shapes: Annotated[
        list[str] | None,
        typer.Option(
            "--shape", metavar="NAME=[TYPE:]SIZES", help="Of an input that is made up; once for each."
        ),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, max=4096, help="That both sides use; what they take if left out.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="How long to take times; 0 for none.")] = 4.0,
    limit: Annotated[
        float, typer.Option(help="Seconds after which a step that does not end is stopped.")
    ] = 300.0,
    seed: Annotated[int, typer.Option(min=0, help="Of the data that is made up, and of torch.")] = 0,
    everything: Annotated[bool, typer.Option("--all", help="Show all layers.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write JSON for scripts instead of tables.")
    ] = False,
) -> None:
    """Run a torch module or an ONNX model, and say what is slow or wrong in it, where, why, and what to do.

    A Python file is EXECUTED, as is the function that makes the model: examine only what you would run. Its model is
    `model`, `module` or `net`, a torch.nn.Module or a function that returns one or (module, inputs); else `factory`,
    `make`, `make_model`, `get_model`, `build` or `build_model`, such a function; or what NAME says. Its inputs are
    `inputs` or `example_inputs`: a tensor, a tuple, a dictionary by name, or a function that returns one.

    It runs in inference mode, in processes of its own, by torch or onnxruntime and by ours in turns. The exit code is
    1 if a result is wrong or a side can't run it; what is only slow is no failure.

    \b
    Examples:
      onednn-graph doctor model.py
      onednn-graph doctor torchvision.models:resnet18 --shape x=1x3x224x224
      onednn-graph doctor model.onnx --inputs in.npz --json
    """
    from .checks import checked
    from .examination import Options, examine
    from .report import as_data, print_report
    from .subjects import subject_of

    options = Options(
        inputs=str(inputs or ""),
        shapes=tuple(shapes or ()),
        seed=seed,
        threads=threads or all_threads(),
        seconds=seconds,
        limit=limit,
    )
    with working(f"examining {subject}"):
        examined = examine(subject_of(subject), options, checked)
    if as_json:
        emit_json(as_data(examined))
    else:
        print_report(examined, plainly, table, everything=everything)
    if not examined.ok:
        raise typer.Exit(Exit.failed)
