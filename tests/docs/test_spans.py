"""Calls in running text and tables, which no block runs: the names are there, and so are the options."""

import ast
import functools
import importlib.util
import inspect
import re

import attrs
import numpy as np
import onednn_graph as og
import pytest
from conftest import ROOT
from rows import each

FENCE = re.compile(r"^```.*?^```", re.M | re.S)
SPAN = re.compile(r"`([^`\n]+)`")
PAGES = [*sorted((ROOT / "docs" / "pages").rglob("*.md")), ROOT / "README.md"]
OTHERS_MODELS = {"torch.md", "intel-extension.md", "doctor.md", "in-300-lines.md"}
"""Pages on which `model` is torch's, or written there."""


def examples():
    """What stands for what in the documentation."""
    graph = og.Graph()
    x = graph.input("x", "f32", [2, 2])
    y = graph.output(graph.matmul(x, graph.parameter(np.ones((2, 2), np.float32), name="w"), name="y"))
    trainer = og.training.Trainer(
        graph, graph.reduce_mean(y, axes=[0, 1], keep_dims=False), og.training.SGD(0.1)
    )
    model = trainer.model().compile()
    with og.profile() as prof:
        pass
    return {
        "og": og,
        "graph": og.Graph(),
        "model": model,
        "partition": model.partitions[0],
        "trainer": trainer,
        "Trainer": og.training.Trainer,
        "prof": prof,
    }


OURS = examples()
REGISTERED = {"swish"}
"""Ops that a page adds."""
LATER = {"torch"}
"""Parts of `og` that need a package: looked at where it is installed."""


def spans_of(path):
    """The code spans of a page, each with its line; those of others, in the first column of a table, are left out."""
    text = FENCE.sub(lambda block: "\n" * block.group().count("\n"), path.read_text(encoding="utf-8"))
    return [
        (number, span)
        for number, line in enumerate(text.splitlines(), 1)
        for span in SPAN.findall(own_columns(line, path) if line.startswith("|") else line)
    ]


def own_columns(line, path):
    """The cells of a row behind the first, where that one has the calls of another library."""
    cells = re.split(r"(?<!\\)\|", line)
    return "|".join(cells[2:] if path.parent.name == "coming-from" else cells).replace("\\|", "|")


def parsed(span):
    """The expressions of a span that is Python, and none where it is something else."""
    text = span.replace("…", "...").strip()
    text += " pass" if text.startswith("with ") and text.endswith(":") else ""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return []
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.Attribute) for part in [node.value]}
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and id(node) not in inner]
    return [*calls, *names]


def chain(node):
    """`["og", "training", "mpi"]` of `og.training.mpi`; empty where it begins with something else."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return [node.id, *reversed(parts)] if isinstance(node, ast.Name) else []


def resolved(node, without=()):
    """What a name of ours is; None where it is nobody's we know.

    Raises:
        AttributeError: it is ours, and not there.
    """
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Call):
        of = resolved(node.value.func)  # what a call gives: `og.from_onnx(…).compile`
        return getattr(OURS["graph"], node.attr) if of in (og.from_onnx, og.from_torch, og.Graph) else None
    name, *rest = chain(node) or [None]
    if name not in OURS or name in without or (rest[:1] and rest[0] in REGISTERED):
        return None
    if rest[:1] and rest[0] in LATER:
        if importlib.util.find_spec(rest[0]) is None:
            return None
        importlib.import_module(f"onednn_graph.{rest[0]}")
    return functools.reduce(getattr, rest, OURS[name])


def problem(span, without=()):
    """What is stale in a span; None for nothing."""
    for node in parsed(span):
        try:
            found = resolved(node.func if isinstance(node, ast.Call) else node, without)
        except AttributeError as error:
            return str(error)
        if not isinstance(node, ast.Call) or not callable(found) or found is OURS["model"]:
            continue
        parameters = inspect.signature(found).parameters.values()
        known = {one.name for one in parameters}
        compiles = getattr(found, "__func__", None) is og.Graph.compile
        if compiles:
            known |= {one.name for one in attrs.fields(og.CompileOptions)}
        elif any(one.kind is one.VAR_KEYWORD for one in parameters):
            continue
        for keyword in node.keywords:
            if keyword.arg is not None and keyword.arg not in known:
                return f"{ast.unparse(node.func)} has no option {keyword.arg}; it has {sorted(known)}"
    return None


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # names of version 0.2
@each("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_what_running_text_calls_is_there(path):
    without = {"model"} if path.name in OTHERS_MODELS else set()
    stale = [
        f"{path.name}:{line}: `{span}`: {told}"
        for line, span in spans_of(path)
        if (told := problem(span, without))
    ]
    assert not stale


@pytest.mark.parametrize(
    "span",
    [
        "og.quantise(x)",
        "graph.compress_weights()",
        'graph.quantize_weights("s4", groups=128)',
        "model.compress(path)",
        "partition.why_nott",
        'og.from_onnx("m.onnx").compile(thread=2)',
        "graph.compile(thread=…)",
        "og.training.Adamm",
        "with og.profiled() as prof:",
        "Trainer(…, precisions='bf16')",
    ],
)
def test_a_stale_span_is_seen(span):
    assert problem(span)


def test_rows_of_ours_are_found():
    """The tables of those who come from elsewhere are no exception."""
    for name in ("intel-extension", "onnxruntime", "openvino"):
        page = ROOT / "docs" / "pages" / "coming-from" / f"{name}.md"
        ours = [
            span
            for _, span in spans_of(page)
            if any(chain(getattr(node, "func", node))[:1] for node in parsed(span))
        ]
        assert len(ours) > 5, page
