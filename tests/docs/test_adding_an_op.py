"""An op is added in eight files and by one command, as CONTRIBUTING says: Softsign, in a copy of the checkout."""

import os
import re
import shutil
import subprocess
import sys

import onednn_graph as og
import pytest
from attrs import frozen
from conftest import PROJECT, ROOT

COPIED = ("ops", "graph", "backends", "tools", "tests", "docs", "benchmarks", "README.md", "pyproject.toml")
"""What the op and its tests need of a checkout."""


@frozen
class Place:
    """One edit that a person makes.

    Attributes:
        file: in the checkout.
        before: the text in front of which `text` is inserted; it must be there once.
        text: what is written.
    """

    file: str
    before: str
    text: str


PLACES = (
    Place(
        "ops/eltwise.py",
        '_forward("Sqrt",',
        '_forward("Softsign", "Softsign.", "dst = src / (1 + |src|)", source="an op of our own")\n',
    ),
    Place("backends/numpy/eltwise.py", '    "Sqrt":', '    "Softsign": lambda x, a: x / (1 + np.abs(x)),\n'),
    Place(
        "backends/onednn/lowering/eltwise.py",
        "from ..library.enumerators import",
        "from ..library.descriptors import Binary\n",
    ),
    Place(
        "backends/onednn/lowering/eltwise.py",
        "LOWERED = {",
        '''
def softsign(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """A binary primitive that leaves src as it is, and four post-ops: |src|, 1 + that, 1 / that, times src."""
    src, dst = op.inputs[0], op.outputs[0]
    quotient = (
        Link(ops=(), result=dst, algorithm=Algorithm.eltwise_abs),
        Link(ops=(), result=dst, algorithm=Algorithm.eltwise_linear, alpha=1, beta=1),
        Link(ops=(), result=dst, algorithm=Algorithm.eltwise_pow, alpha=1, beta=-1),
        Link(ops=(), result=dst, algorithm=Algorithm.binary_mul, operand=src),
    )
    whole = low.tensors.elementwise(src)
    view = common_axes(low.layouts, whole, (), quotient)
    seen, made = view.see(whole), view.like_first(low.tensors.type_of(dst))
    target = view.see(made)
    post_ops = PostOps(low, ElementwiseView.of(dst, view))
    post_ops.add_links(quotient)
    attributes = post_ops.attributes()
    desc = low.chooser.describe(
        Binary(
            algorithm=Algorithm.binary_max,
            src_0=seen.desc,
            src_1=seen.desc,
            dst=target.desc,
            attributes=attributes,
        )
    )
    arguments = [(Arg.SRC, seen), (Arg.SRC_1, seen), *post_ops.arguments]
    low.emitter.run("eltwise", desc, [*arguments, (Arg.DST, target)])
    low.tensors.produce(dst, made)


''',
    ),
    Place(
        "backends/onednn/lowering/eltwise.py",
        "    **{kind: Lowered(backward)",
        '    "Softsign": Lowered(softsign),\n',
    ),
    Place("graph/onnx_export/eltwise.py", '        "Sqrt": "Sqrt",', '        "Softsign": "Softsign",\n'),
    Place("tools/op_examples.py", '    **_all("Clamp",', '    **_all("Softsign", _X),\n'),
    Place(
        "graph/gradients/eltwise.py",
        '@rule("Exp", spread=True)',
        '''@rule("Softsign", spread=True)
def softsign(ctx: GradientContext) -> Iterator[Made]:
    """1 / (1 + |src|)²."""
    below = ctx.make.add(ctx.make.op("Abs", ctx.input("src")), ctx.make.number(1, ctx.gradient))
    yield "src", ctx.make.divide(ctx.gradient, ctx.make.op("Square", below))


''',
    ),
    Place("tests/support/gradient_calls.py", '    "Sqrt": one(', '    "Softsign": one(),\n'),
    Place(
        "tests/backends/numpy/test_torch_eltwise.py",
        '    "Sqrt": Function(',
        '    "Softsign": Function(functional.softsign, {}),\n',
    ),
)

USED = """
import numpy as np
import onednn_graph as og

x = np.array([[-3, -1, 0], [1, 3, 7]], np.float32)
wanted = np.array([[-0.75, -0.5, 0], [0.5, 0.75, 0.875]], np.float32)
graph = og.Graph()
y = graph.relu(graph.softsign(graph.add(graph.input("x", "f32", x.shape), graph.input("z", "f32", x.shape))), name="y")
inputs = {"x": x - 1, "z": np.ones_like(x)}
graph.finalize()
for backend in BACKENDS:
    np.testing.assert_array_equal(og.softsign(x, backend=backend), wanted)
    np.testing.assert_array_equal(og.softsign(x.astype(np.float16), backend=backend), wanted)
    np.testing.assert_array_equal(graph.compile(backend=backend)(inputs)["y"], np.maximum(wanted, 0))
    assert all(e.backend == backend for e in graph.compile(backend=backend).explain().values())
assert og.op_schema("Softsign").family == "eltwise"
print(og.softsign.__module__, og.__file__)
"""

TESTS = (
    "tests/graph/gradients/test_every_rule.py",
    "tests/ops/test_opset.py",
    "tests/ops/test_shape_inference.py",
    "tests/docs/test_packaging.py",
    "tests/docs/test_readme.py",
    "tests/docs/test_docs.py",
    "tests/graph/functions/test_op_functions.py",
    "tests/graph/functions/test_lists_of_arrays.py",
    "tests/backends/test_edges_of_every_op.py",
    "tests/backends/numpy/test_kernels_table.py",
    "tests/backends/numpy/test_torch_eltwise.py",
    "tests/backends/onednn/test_lowering.py",
    "tests/backends/onednn/test_kernel_choice.py",
    "tests/graph/onnx_export/test_onnx_export_kinds.py",
)
CHOSEN = (
    "Softsign or inferred_shapes or op_has_an_example or covers or are_complete or of_today or op_table or "
    "in_the_stubs or every_op_of_the_reference or every_op_has_a_kernel or every_kind_is_classified or "
    "every_rule_has_a_call or has_no_writer or "
    # tables, of which the rows of Softsign are tried
    "central_differences or gradient_alone or equal_elements or schema_is_that or own_defaults or every_candidate or "
    "never_contradict or page_of_an_op or its_method or its_function or refuses_a_list or no_warning or any_way or "
    "gives_what_numpy or forced_onto or library_computes_it"
)


@pytest.fixture
def run(tmp_path):
    """Runs Python on a copy of the checkout, which is the installed package there."""
    checkout, package = tmp_path / "checkout", tmp_path / "site" / "onednn_graph"
    checkout.mkdir()
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__", "site")
            )
        else:
            shutil.copy(ROOT / name, checkout / name)
    package.mkdir(parents=True)
    folders = dict(PROJECT["tool"]["setuptools"]["package-dir"])
    for file in (checkout / folders.pop("onednn_graph")).iterdir():
        (package / file.name).symlink_to(file)
    for name, folder in folders.items():
        (package / name.removeprefix("onednn_graph.")).symlink_to(checkout / folder)

    def run(*arguments):
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=checkout,
            env=os.environ
            | {
                "PYTHONPATH": str(package.parent),
                "PYTHONUTF8": "1",
                "PYTEST_ADDOPTS": "",
                "ROWS": "Softsign",
            },
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
        return done.stdout

    run.checkout, run.package = checkout, package
    return run


def edit(checkout):
    """Makes the edits."""
    for place in PLACES:
        path = checkout / place.file
        text = path.read_text(encoding="utf-8")
        assert text.count(place.before) == 1, f"{place.file}: {place.before!r}"
        path.write_text(text.replace(place.before, place.text + place.before), encoding="utf-8")


def test_the_guide_has_a_step_for_each_file():
    """Each step begins with what it is, and names the file, by its family where there is one of each."""
    guide = (
        (ROOT / "CONTRIBUTING.md")
        .read_text(encoding="utf-8")
        .split("## How to add an op\n")[1]
        .split("\n## ")[0]
    )
    steps = re.split(r"^\d+\. ", guide, flags=re.M)[1:]
    files = list(dict.fromkeys(place.file for place in PLACES))
    assert "eight files" in guide
    assert len(steps) == len(files)
    for step, file in zip(steps, files, strict=True):
        assert file in step or file.replace("eltwise", "<family>") in step, file


def test_an_op_takes_eight_files_and_one_command(run):
    assert len({place.file for place in PLACES}) == 8
    assert not hasattr(og, "softsign")
    edit(run.checkout)
    run("-m", "onednn_graph.tools.generate", str(run.checkout))
    backends = tuple(name for name in ("numpy", "onednn") if og.list_backends()[name] is None)
    assert run("-c", f"BACKENDS = {backends!r}\n{USED}").split() == [
        "onednn_graph",
        str(run.package / "__init__.py"),
    ]
    report = run("-m", "pytest", "-p", "no:cacheprovider", "-rA", "-k", CHOSEN, *TESTS)
    passed = {line.split("::", 1)[1] for line in report.splitlines() if line.startswith("PASSED")}
    for name in (
        "test_every_op_has_its_function",
        "test_every_op_has_its_method",
        "test_the_page_of_an_op_has_all_of_it",
        "test_the_example_of_an_op_runs[Softsign]",
        "test_inferred_shapes",
        "test_op_table_is_the_registrys",
        "test_generated_files_are_of_today",
        "test_the_table_covers_the_op_set",
        "test_the_gradient_is_that_of_central_differences",
        "test_every_kind_is_classified",
    ):
        assert name in passed, name
    if "onednn" in backends:
        assert {"test_each_op_gives_what_numpy_gives", "test_the_library_computes_it"} <= passed


@pytest.mark.long
@pytest.mark.parametrize("file", sorted({place.file for place in PLACES[1:-1]}))
def test_a_place_that_is_forgotten_is_seen(run, file, monkeypatch):
    """Beside the schema, without which nothing is imported, and the oracle, which needs torch."""
    monkeypatch.setitem(globals(), "PLACES", tuple(place for place in PLACES if place.file != file))
    edit(run.checkout)
    run("-m", "onednn_graph.tools.generate", str(run.checkout))
    with pytest.raises(AssertionError, match="Softsign"):
        run("-m", "pytest", "-p", "no:cacheprovider", "-x", "-k", CHOSEN, *TESTS)
