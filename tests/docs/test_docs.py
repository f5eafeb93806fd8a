"""The documentation: every code block of every page is run, and the site builds."""

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import onednn_graph as og
import pytest
from conftest import PROJECT, ROOT
from documents import Page, PageError, blocks_of, matches, needed_by, with_needs
from onednn_graph.backends.numpy.kernels import KERNELS
from onednn_graph.backends.onednn.lowering import table
from onednn_graph.graph.compile.backend import BACKENDS
from onednn_graph.graph.functions import op_functions
from onednn_graph.graph.gradients.table import RULES
from onednn_graph.ops.registry import REGISTRY
from onednn_graph.tools import op_table, precision_table
from onednn_graph.tools.op_examples import CALLS, MARKERS, example, has_example
from onednn_graph.tools.op_page import op_page
from rows import each

DOCS = ROOT / "docs"
PAGES = sorted((DOCS / "pages").rglob("*.md"))
OTHERS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
OPS = [schema for schema in og.list_ops() if schema.family != "custom"]
SEARCHED = (
    *(
        "conv2d",
        "NCHW",
        "NHWC",
        "attention",
        "SDPA",
        "flash attention",
        "backprop filters",
        "max pool",
        "relu6",
    ),
    *("dense", "gemm", "linear", "deconvolution", "upsample", "batch norm", "OMP_NUM_THREADS", "autocast"),
)
HAS_ONEDNN = og.list_backends()["onednn"] is None


@contextmanager
def as_it_was() -> Iterator[None]:
    """Whatever a page registers is gone afterwards, also where the page fails."""
    tables = [REGISTRY._schemas, REGISTRY._written, KERNELS, BACKENDS._backends, table.LOWERED, RULES]
    before = [dict(one) for one in tables]
    on_request = set(BACKENDS._on_request)
    try:
        yield
    finally:
        REGISTRY._written = tables[1]  # unregister makes a new one
        for one, content in zip(tables, before, strict=True):
            one.clear()
            one.update(content)
        BACKENDS._on_request.clear()
        BACKENDS._on_request.update(on_request)


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """An empty folder to be in, with a tuning cache of its own and settings of the environment left out."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ONEDNN_GRAPH_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ONEDNN_VERBOSE", raising=False)
    with as_it_was():
        yield tmp_path


def relative(path):
    return str(path.relative_to(ROOT))


# --- the pages ----------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec:FutureWarning")  # torch.export's own
@pytest.mark.parametrize("path", PAGES, ids=lambda path: with_needs(path, ROOT))
def test_code_of_the_page_runs_and_prints_what_it_says(path, elsewhere):
    if not HAS_ONEDNN:
        pytest.skip(
            f"the pages show results of oneDNN, which is not available: {og.list_backends()['onednn']}"
        )
    page = Page(path, elsewhere)
    page.run()
    if page.left_out:
        pytest.skip(f"all other blocks passed, but {'; '.join(page.left_out)}, which is not installed")


def test_ci_runs_the_blocks_of_every_package_that_a_page_needs():
    """What the first run has not installed and so skips, is run again with torch and onnxruntime; what these are not
    enough for, is selected by the ids that `with_needs` gives."""
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    selected = set(re.findall(r"needs-(\w+)", " ".join(re.findall(r"pytest.* tests/docs -k (.*)", script))))
    at_first = {"onnx", "safetensors"}
    needed = {name for path in [*PAGES, *OTHERS] for name in needed_by(path)}
    assert {"torch", "onnxruntime", "openvino"} < needed
    extras = PROJECT["project"]["optional-dependencies"]
    again = {re.match(r"\w+", one)[0] for one in extras["test-oracles"]}
    assert "@.venv-test/left-out-so-far" in script
    assert selected == needed - at_first - again
    assert "onednn-graph[cli,examples,onnx,weights]" in extras["test"]


@each("path", [*PAGES, *OTHERS], ids=relative)
def test_no_code_hides_from_the_tests(path):
    """Blocks in lists or tabs would not be found; what is not run says why."""
    text = path.read_text(encoding="utf-8")
    blocks = blocks_of(text)
    assert len(re.findall(r"^\s*```\w+", text, re.M)) == len([b for b in blocks if b.language])
    for block in blocks:
        assert block.language, f"{path}:{block.line}: a block without a language"
        if block.language == "python" and path in PAGES:
            assert max(map(len, block.text.splitlines())) <= 120, (
                f"{path}:{block.line}: a line is too wide to read"
            )
        if "notest" in block.marks:
            assert len(block.marks["notest"]) > 10, f"{path}:{block.line}: say why it is not run"
    assert not re.search(r"<!--\s*notest\s*-->", text), f"{path}: a notest without a reason"


def test_pages_are_in_the_navigation():
    made = '"ops/table.md" "ops/who-runs.md"'  # which build.py adds
    nav = (DOCS / "zensical.toml").read_text(encoding="utf-8") + made
    for path in PAGES:
        assert f'"{path.relative_to(DOCS / "pages").as_posix()}"' in nav


def test_every_error_and_warning_has_its_place_in_troubleshooting():
    text = (DOCS / "pages" / "help" / "troubleshooting.md").read_text(encoding="utf-8")
    raised = {name for name in og.errors.__all__ if name.endswith(("Error", "Warning"))}
    # Warnings of torch.compile have their names there: not everybody has torch.
    for folder in ("ops", "graph", "backends"):
        for path in (ROOT / folder).rglob("*.py"):
            raised |= set(re.findall(r"^class (\w+Warning)\(", path.read_text(encoding="utf-8"), re.M))
    assert sorted(re.findall(r"^### (\w+)$", text, re.M)) == sorted(raised)
    for part in re.split(r"^### ", text, flags=re.M)[1:]:
        assert len(re.sub(r"^```.*?^```|^## .*", "", part, flags=re.M | re.S).split()) > 12, part[:40]


def test_words_that_people_search_for_lead_somewhere():
    text = (DOCS / "pages" / "coming-from" / "names.md").read_text(encoding="utf-8")
    titles = " ".join(re.findall(r"^## (.*)$", text, re.M)).casefold()
    for word in SEARCHED:
        assert word.casefold() in titles, word
    for kind in re.findall(r"\]\(\.\./ops/(\w+)\.md\)", text):
        assert og.op_schema(kind).kind == kind


def test_the_table_of_what_stays_f32_is_what_the_code_goes_by():
    page = (ROOT / precision_table.PAGE).read_text(encoding="utf-8")
    assert precision_table.with_table(page) == page


def test_op_table_is_the_registrys():
    page = (ROOT / op_table.PAGE).read_text(encoding="utf-8")
    assert op_table.with_table(page) == page


def test_pages_load_nothing_from_elsewhere():
    for path in PAGES:
        text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
        assert not re.search(r"!\[[^]]*\]\(https?:|<(script|img|iframe|link)\b", text), path


# --- ops ------------------------------------------------------------------------------------------------


def test_every_op_has_an_example():
    assert {*CALLS, *MARKERS} == {schema.kind for schema in OPS}
    assert not set(CALLS) & set(MARKERS)


@pytest.mark.parametrize("schema", OPS, ids=lambda schema: schema.kind)
def test_the_example_of_an_op_runs(schema, elsewhere):
    text = f"```python\n{example(schema)}```\n"
    assert max(map(len, text.splitlines())) <= 100
    page = Page(f"{schema.kind}.md", elsewhere, text)
    page.run()
    printed = [line for line in text.splitlines() if line.startswith("print(")]
    assert printed
    assert all("# → " in line for line in printed)


@each("schema", OPS, ids=lambda schema: schema.kind)
def test_the_page_of_an_op_has_all_of_it(schema):
    page = op_page(schema)
    assert page.startswith(f"# {schema.kind}\n")
    for port in (*schema.inputs, *schema.outputs):
        assert f"| `{port.name}` |" in page
    for spec in schema.attributes:
        assert f"| `{spec.name}` |" in page
    for alias in schema.aliases:
        assert f"`{alias.kind}`" in page
    assert example(schema) in page
    called = re.search(r"`og\.(\w+)\(…\)`", page)
    if called:
        assert callable(getattr(og, called.group(1)))
    else:
        assert schema.kind in MARKERS


def test_the_page_of_a_users_op():
    schema = og.extend.OpSchema(
        kind="Doubled",
        summary="Twice as much.",
        inputs=[og.extend.Port("x", "T")],
        outputs=[og.extend.Port("y", "T")],
        types={"T": ["f32"]},
        infer_shapes=og.extend.shape_of_first_input,
    )
    assert not has_example(schema)
    page = op_page(schema)
    assert "`og.doubled(…)` on arrays, `graph.doubled(…)`" in page
    assert "## Example" not in page


# --- the site -------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The built site, or a skip."""
    for module in ("zensical", "mkdocstrings"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed; pip install '.[docs]' to build the site")
    folder = tmp_path_factory.mktemp("site") / "site"
    run = subprocess.run(
        [sys.executable, str(DOCS / "build.py"), "--out", str(folder)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        env=os.environ | {"PYTHONUTF8": "1"},
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return folder


def test_the_site_has_a_page_for_each_op(site):
    for schema in OPS:
        html = (site / "ops" / f"{schema.kind}.html").read_text(encoding="utf-8")
        assert schema.summary.split(",")[0].split("'")[0] in html
    index = (site / "ops" / "index.html").read_text(encoding="utf-8")
    assert all(f'href="{schema.kind}.html"' in index for schema in OPS)


def test_the_site_has_the_reference(site):
    html = "".join(path.read_text(encoding="utf-8") for path in sorted((site / "api").glob("*.html")))
    for name in ("Graph", "LogicalTensor", "CompiledPartition", "register_op", "profile", "ShapeError"):
        assert re.search(rf'id="onednn_graph\.(\w+\.)*{name}"', html), name


def test_the_reference_has_a_function_for_each_op(site):
    html = (site / "api" / "functions.html").read_text(encoding="utf-8")
    for name in op_functions.__all__:
        assert f'id="onednn_graph.graph.functions.op_functions.{name}"' in html


def test_the_site_needs_no_network(site):
    """Neither pages nor styles load anything from elsewhere; scripts of the theme are looked at for what pages use."""
    loads = re.compile(
        r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//|<link\b[^>]*\bhref=["']?(?:https?:)?//"""
    )
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        for found in loads.finditer(text):
            assert 'rel="canonical"' in text[found.start() : found.end() + 80], f"{path}: {found.group()}"
    for path in site.rglob("*.css"):
        assert not re.search(r"""url\(["']?(?:https?:)?//|@import""", path.read_text(encoding="utf-8")), path


# --- what runs them ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("```python\nprint(1)  # → 2\n```", "promised '2'"),
        ("```python\nprint(1)\n```\n\nwhich prints\n\n```text\n2\n```", "promised\n2"),
        ("```python\n1 / 0\n```", None),
        ("```python\n1 + 0\n# ZeroDivisionError: division by zero\n```", "nothing was raised"),
        ("```python\n1 / 0\n# ZeroDivisionError: by one\n```", "promised\nZeroDivisionError: by one"),
        ("```sh\nonednn-graph ops NoSuchOp\n```", "exit code 2"),
        ("```sh\nrm -rf x\n```", "no command that a page runs"),
        ("<!-- output: varies -->\n", None),
        (
            "```python\nprint('1 ms', 2)\n```\n\n<!-- output: measured -->\n\n```text\n3 us 4\n```",
            "but for numbers",
        ),
        ("```python\nx = 1\n```\n\n<!-- output: varies -->\n\n```text\n1\n```", "printed nothing"),
    ],
)
def test_a_page_that_lies_is_found_out(text, problem, elsewhere):
    page = Page("lie.md", elsewhere, text)
    if problem is not None:
        with pytest.raises(PageError, match=re.escape(problem)):
            page.run()
    elif page.blocks:
        with pytest.raises(ZeroDivisionError):
            page.run()


def test_a_page_that_is_right_passes(elsewhere):
    page = Page(
        "right.md",
        elsewhere,
        "```python\nx = 1\nprint(x)  # → 1\n```\n\n"
        "```python\nprint(x + 1, id(x))\nprint(3)\n```\n\n```text\n2 …\n3\n```\n\n"
        "```python\nint('x')\n# ValueError: invalid literal for int() with base 10:\n# 'x'\n```\n\n"
        "```python\nprint('jit:avx2   0.5 ms')\n```\n\n<!-- output: measured -->\n\n"
        "```text\nbrg:avx512_core 12 ms\n```\n\n"
        "<!-- notest: there is no such module -->\n\n```python\nimport nothing_of_the_kind\n```\n\n"
        "<!-- needs: nothing_of_the_kind -->\n\n```python\nimport nothing_of_the_kind\n```\n\n"
        "<!-- exit: 2 -->\n\n```sh\nonednn-graph ops ReLUU\n```\n\n```text\n…did you mean 'ReLU'…\n```\n",
    )
    page.run()
    assert page.left_out == ["right.md:41 needs nothing_of_the_kind"]


def test_wildcards_stay_on_their_line():
    assert matches("a 1 b\n", "a … b")
    assert not matches("a 1\nb\n", "a … b")
    assert matches("a\nx\ny\nb\n", "a\n…\nb")
    assert matches("a\nb\n", "a\n…\nb")
    assert not matches("a\nb\nc\n", "a\nb")
