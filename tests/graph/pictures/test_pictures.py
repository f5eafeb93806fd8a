"""Pictures of graphs as files: what is in a page and in Graphviz text, and what notebooks get. No browser here."""

import base64
import copy
import hashlib
import html
import json
import re
import shutil
import socket
import subprocess
import sys
import threading
from html.parser import HTMLParser
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import onednn_graph as og
import pytest
from conftest import PROJECT, ROOT
from onednn_graph.graph.pictures.description import describe
from onednn_graph.graph.pictures.graphviz import dot_text
from onednn_graph.graph.pictures.html import embedded, html_page
from onednn_graph.tools.graph_files import GraphFile
from onednn_graph.tools.viewing import view

ASSETS = ROOT / "graph" / "pictures" / "assets"
CONV = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    "<!--<script>",
    '"]}; alert(1); //',
    "a\u2028b\u2029c",
    "&lt;b&gt; &amp;",
    'back\\slash \\N \\"quoted"',
    "\ud800 lone",
    "${title} $data {{x}}",
]


def fused():
    graph = og.Graph()
    x = graph.input("x", "f32", [2, 8, 8, 4])
    y = graph.op("Convolution", x, graph.input("w", "f32", [3, 3, 4, 8], property_type="constant"), **CONV)
    y = graph.op("ReLU", y, name="activation")
    graph.op("GreaterEqual", y, y, name="mask")
    return graph


def named(name):
    graph = og.Graph()
    graph.op("ReLU", graph.input(name, "f32", [2, 3]), name=f"{name}!")
    return graph


class Page(HTMLParser):
    """A page's elements, as a browser would see them."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags = []
        self.texts = {}
        self._inside = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag in ("script", "style", "title"):
            self._inside = len(self.tags) - 1

    def handle_data(self, data):
        if self._inside is not None:
            self.texts[self._inside] = self.texts.get(self._inside, "") + data

    def handle_endtag(self, tag):
        self._inside = None

    def all(self, tag):
        return [(attrs, self.texts.get(i, "")) for i, (name, attrs) in enumerate(self.tags) if name == tag]

    @property
    def data(self):
        [text] = [text for attrs, text in self.all("script") if attrs.get("id") == "graph"]
        return json.loads(text)


def page_of(graph, tmp_path, **arguments):
    path = tmp_path / "graph.html"
    graph.to_html(path, **arguments)
    return Page(path.read_text(encoding="utf-8"))


# fmt: off
TAGS = {
    "html", "head", "meta", "link", "title", "style", "body", "header", "h1", "label", "span", "input",
    "button", "select", "main", "svg", "defs", "marker", "path", "g", "aside", "div", "noscript", "script",
    "section",
}
# fmt: on


# --- the page -------------------------------------------------------------------------------------------


def test_the_page_holds_the_graph(tmp_path):
    graph = fused()
    page = page_of(graph, tmp_path)
    assert page.data == json.loads(json.dumps(describe(graph).as_data()))
    assert not graph.finalized
    [(_, title)] = page.all("title")
    assert title == f"Graph: 3 ops, {len(page.data['partitions'])} partitions"


def test_policy_backend_and_profile_are_passed_on(tmp_path):
    graph = fused()
    debug = page_of(graph, tmp_path, policy="debug").data
    assert [len(partition["ops"]) for partition in debug["partitions"]] == [1, 1, 1]
    numpy = page_of(graph, tmp_path, backend="numpy").data
    assert {partition["backend"] for partition in numpy["partitions"]} == {"numpy"}
    model = graph.compile(backend="numpy")
    with og.profile() as prof:
        model({"x": np.ones((2, 8, 8, 4), np.float32), "w": np.ones((3, 3, 4, 8), np.float32)})
    timed = page_of(graph, tmp_path, backend="numpy", profile=prof).data
    assert [p["seconds"] for p in timed["partitions"]] == list(prof.partition_seconds().values())
    assert all(step["seconds"] > 0 for p in timed["partitions"] for step in p["steps"])


def test_the_page_loads_nothing(tmp_path):
    page = page_of(fused(), tmp_path)
    for tag, attributes in page.tags:
        assert tag in TAGS
        assert not {"src", "srcset", "action", "background"} & set(attributes)
        assert attributes.get("href", "data:,") == "data:,"
        assert not any(name.startswith("on") for name in attributes)
    [(_, style)] = page.all("style")
    assert not re.search(r"url\(|@import|image-set", style)
    [policy] = [a["content"] for a, _ in page.all("meta") if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:;")


def test_only_our_scripts_may_run(tmp_path):
    page = page_of(fused(), tmp_path)
    [policy] = [a["content"] for a, _ in page.all("meta") if a.get("http-equiv") == "Content-Security-Policy"]
    running = [text for attrs, text in page.all("script") if attrs.get("type") != "application/json"]
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in running]
    assert len(hashes) == 2
    assert policy.partition("script-src ")[2] == " ".join(f"'sha256-{text}'" for text in hashes)


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_only_text(name, tmp_path):
    graph = named(name)
    page = page_of(graph, tmp_path)
    assert [tag for tag, _ in page.tags].count("script") == 3
    assert "img" not in [tag for tag, _ in page.tags]
    assert [tensor["name"] for tensor in page.data["tensors"]] == [name, f"{name}!"]
    assert page.data["ops"][0]["name"] == f"{name}!"
    text = (tmp_path / "graph.html").read_text(encoding="utf-8")
    assert "<img" not in text
    assert len(page.tags) == len(page_of(named("plain"), tmp_path).tags)


def test_embedded_json_ends_nothing():
    text = embedded({"<key>": ["</script>", "<!--", "\u2028\u2029", "&amp;", 1, True, None, 1.5]})
    assert not set("<>&\u2028\u2029") & set(text)
    assert text.isascii()
    assert json.loads(text) == {"<key>": ["</script>", "<!--", "\u2028\u2029", "&amp;", 1, True, None, 1.5]}


def test_numbers_that_javascript_lacks_become_strings():
    values = [2**53 - 1, 2**53, -(2**63), float("inf"), float("-inf"), float("nan"), 0.1]
    assert json.loads(embedded(values)) == [
        2**53 - 1,
        "9007199254740992",
        "-9223372036854775808",
        "inf",
        "-inf",
        "nan",
        0.1,
    ]


def test_large_ids_stay_apart(tmp_path):
    graph = og.Graph()
    first, second, last = (og.LogicalTensor(2**63 + number, "f32", [4]) for number in range(3))
    graph.add_op(og.Op(2**63, "Add", [first, second], [last]))
    data = page_of(graph, tmp_path).data
    assert [tensor["id"] for tensor in data["tensors"]] == [str(2**63 + number) for number in range(3)]
    assert [port[1] for port in data["ops"][0]["inputs"]] == [str(2**63), str(2**63 + 1)]


def test_layouts_have_a_word():
    graph = og.Graph()
    tensors = [
        graph.input("plain", "f32", [2, 3, 4, 5]),
        graph.input("last", "f32", [2, 3, 4, 5], strides=[60, 1, 15, 3]),
        graph.input("padded", "f32", [2, 3, 4, 5], strides=[600, 1, 15, 3]),
        graph.input("row", "f32", [2, 3, 4, 5], strides=[60, 20, 5, 1]),
    ]
    for tensor in tensors:
        graph.op("ReLU", tensor)
    layouts = {t.name: t.layout for t in describe(graph, kernels=False).tensors}
    assert [layouts[t.name] for t in tensors] == ["row-major", "acdb", "strides 600x1x15x3", "row-major"]


def test_a_file_that_cannot_be_written_is_an_error(tmp_path):
    for write in (fused().to_html, fused().to_dot):
        with pytest.raises(og.GraphFileError, match=r"missing.graph\.x: can't be written"):
            write(tmp_path / "missing" / "graph.x")
        with pytest.raises(og.ArgumentTypeError, match="path"):
            write(3)


def test_a_forced_backend_that_cannot_is_an_error(onednn, tmp_path):
    path = tmp_path / "graph.html"
    with pytest.raises(og.UnsupportedError, match="backend 'onednn' was forced"):
        fused().to_html(path, backend="onednn")
    assert not path.exists()


# --- notebooks ------------------------------------------------------------------------------------------


def framed(shown):
    """The page in the frame that a notebook gets."""
    [(tag, attributes)] = Page(shown).tags
    assert tag == "iframe"
    assert attributes["sandbox"] == "allow-scripts"
    assert 200 <= int(attributes["height"]) <= 600
    return Page(attributes["srcdoc"])


def test_a_graph_is_displayed_and_stays_open():
    graph = fused()
    before = graph.to_json()
    data = framed(graph._repr_html_()).data
    assert not graph.finalized
    assert graph.to_json() == before
    assert [op["kind"] for op in data["ops"]] == ["Convolution", "ReLU", "GreaterEqual"]
    assert {tensor["name"] for tensor in data["tensors"]} >= {"x", "w", "activation", "mask"}
    assert data["partitions"]
    assert data["problem"] == ""
    graph.op("Abs", graph.input("later", "f32", [3]), name="more")
    assert len(framed(graph._repr_html_()).data["ops"]) == 4


def test_a_graph_without_ops_shows_its_inputs():
    graph = og.Graph()
    data = framed(graph._repr_html_()).data
    assert (data["ops"], data["tensors"], data["problem"]) == ([], [], "")
    graph.input("x", "f32", [2, 3])
    [tensor] = framed(graph._repr_html_()).data["tensors"]
    assert (tensor["name"], tensor["role"], tensor["text"]) == ("x", "input", "f32 2x3")


def test_a_wrong_graph_is_shown_with_its_problem():
    a, b = (og.LogicalTensor(number, "f32", [2]) for number in range(2))
    cycle = og.Graph()
    cycle.add_op(og.Op(0, "ReLU", [a], [b]))
    cycle.add_op(og.Op(1, "Abs", [b], [a]))
    data = framed(cycle._repr_html_()).data
    assert "cycle" in data["problem"]
    assert [op["kind"] for op in data["ops"]] == ["ReLU", "Abs"]
    contradiction = og.Graph()
    contradiction.add_op(
        og.Op(0, "ReLU", [og.LogicalTensor(0, "f32", [2])], [og.LogicalTensor(1, "f32", [3])])
    )
    data = framed(contradiction._repr_html_()).data
    assert "declared with shape [3]" in data["problem"]
    assert data["partitions"] == []


def test_whatever_goes_wrong_is_shown(monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("something unforeseen")

    monkeypatch.setattr(og.Graph, "get_partitions", broken)
    data = framed(fused()._repr_html_()).data
    assert data["problem"] == "something unforeseen"
    assert len(data["ops"]) == 3


def test_a_compiled_graph_shows_what_was_chosen():
    model = fused().compile(backend="numpy")
    data = framed(model._repr_html_()).data
    assert [op["kind"] for op in data["ops"]] == ["Convolution", "ReLU", "GreaterEqual"]
    found = model.explain()
    assert [p["strategy"] for p in data["partitions"]] == [
        found[p["id"]].strategy for p in data["partitions"]
    ]
    assert [t["name"] for t in data["tensors"] if t["role"] == "input"] == ["x", "w"]
    assert [t["name"] for t in data["tensors"] if t["role"] == "output"] == ["mask"]
    late = og.Graph()
    late.op("ReLU", late.input("x", "f32", [-1, 2]))
    [partition] = framed(late.compile()._repr_html_()).data["partitions"]
    assert "compiled at execution" in partition["problem"]


def test_a_frame_holds_exactly_the_page():
    graph = named(HOSTILE[0])
    [(_, attributes)] = Page(graph._repr_html_()).tags
    assert attributes["srcdoc"] == html_page(describe(graph))


def test_copies_of_graphs_are_apart():
    graph = fused()
    twin = copy.copy(graph)
    twin.op("Abs", twin.input("extra", "f32", [2]), name="only_there")
    twin.finalize()
    assert (len(graph.ops), len(twin.ops)) == (3, 4)
    assert not graph.finalized
    assert [t.name for t in graph.tensors] == [t.name for t in twin.tensors][: len(graph.tensors)]
    graph.op("Abs", graph.input("extra", "f32", [5]), name="only_here")
    assert twin.tensors[-1].name == "only_there"


# --- Graphviz -------------------------------------------------------------------------------------------


def test_graphviz_text_has_a_cluster_for_each_partition(tmp_path):
    graph = fused()
    graph.to_dot(tmp_path / "graph.dot")
    graph.finalize()
    text = (tmp_path / "graph.dot").read_text(encoding="utf-8")
    assert text.startswith("digraph onednn_graph {\n")
    assert text.count("{") == text.count("}")
    clusters = dict(re.findall(r"subgraph cluster_(\d+) \{\n(.*?)\n  \}", text, re.DOTALL))
    assert {
        int(number): [int(op) for op in re.findall(r"^    op_(\d+) ", body, re.MULTILINE)]
        for number, body in clusters.items()
    } == {partition.id: [op.id for op in partition.ops] for partition in graph.get_partitions()}
    ops = {op.kind: op.id for op in graph.ops}
    x, w = graph.inputs
    assert f"input_{x.id} -> op_{ops['Convolution']};" in text
    assert f"input_{w.id} -> op_{ops['Convolution']};" in text
    assert f'op_{ops["Convolution"]} -> op_{ops["ReLU"]} [label="f32 2x8x8x8"];' in text
    assert text.count(f'op_{ops["ReLU"]} -> op_{ops["GreaterEqual"]} [label="f32 2x8x8x8"];') == 2
    assert f"op_{ops['GreaterEqual']} -> output_{graph.outputs[0].id};" in text


def test_graphviz_strings_are_escaped():
    text = dot_text(describe(named('a"b\\N</TABLE>&lt;\n\x00'), kernels=False))
    assert 'label="a\\"b\\\\N</TABLE>&amp;lt;\\n\ufffd\\nf32 2x3"' in text
    assert 'label="ReLU\\na\\"b' in text


@pytest.mark.parametrize("name", [*HOSTILE, "two\nlines", "ünï ± 漢字"])
def test_graphviz_reads_the_text(name, tmp_path):
    if shutil.which("dot") is None:
        pytest.skip("Graphviz's command dot is not here; install the package graphviz")
    graph = fused() if name == HOSTILE[0] else named(name)
    graph.finalize()
    graph.to_dot(tmp_path / "graph.dot", backend="numpy")
    drawn = subprocess.run(
        ["dot", "-Tsvg", str(tmp_path / "graph.dot")], capture_output=True, timeout=60, check=False
    )
    assert drawn.returncode == 0, drawn.stderr.decode()
    assert b"rror" not in drawn.stderr
    svg = ElementTree.fromstring(drawn.stdout)
    groups = [group.get("class") for group in svg.iter("{http://www.w3.org/2000/svg}g")]
    assert groups.count("cluster") == len(graph.get_partitions(backend="numpy"))
    assert groups.count("node") == len(graph.ops) + len(graph.inputs) + len(graph.outputs)
    texts = [text.text for text in svg.iter("{http://www.w3.org/2000/svg}text")]
    if name != HOSTILE[0]:
        shown = "".join(letter if letter.isprintable() or letter == "\n" else "\ufffd" for letter in name)
        written = "\n".join(text for text in texts if text).replace("\xa0", " ")
        assert shown in written


# --- Netron, without itself (test_browser.py has it) -----------------------------------------------------------


def interrupted(monkeypatch):
    """Someone presses Ctrl-C as soon as the page is served."""

    class Event:
        def wait(self):
            raise KeyboardInterrupt

    monkeypatch.setattr(threading, "Event", Event)


@pytest.mark.parametrize(
    ("name", "served"), [("a.json", "a.json"), ("a.JSON", "a.JSON"), ("a.graph", "a.graph.json")]
)
def test_view_serves_what_netron_recognises(name, served, tmp_path, monkeypatch):
    calls = []

    def serve(file, data, address, browse):
        calls.append((file, bytes(data), address, browse))
        return "localhost", 4567

    netron = SimpleNamespace(serve=serve, stop=calls.append)
    monkeypatch.setitem(sys.modules, "netron", netron)
    interrupted(monkeypatch)
    path = tmp_path / name
    fused().save(path)
    said = []
    with pytest.raises(KeyboardInterrupt):
        view(GraphFile.at(path), 0, browse=False, say=said.append)
    assert calls == [
        (str(tmp_path / served), path.read_bytes(), ("localhost", None), False),
        ("localhost", 4567),
    ]
    assert said == [f"Ctrl-C ends. {path} is shown at http://localhost:4567"]


def test_view_says_what_is_wrong(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    fused().save(path)
    monkeypatch.setitem(sys.modules, "netron", None)
    with pytest.raises(og.UnsupportedError, match=r"its extra 'view'.*pip install '\.\[view\]'"):
        view(GraphFile.at(path), 0, browse=False, say=print)
    monkeypatch.setitem(sys.modules, "netron", SimpleNamespace())
    with pytest.raises(og.ArgumentError, match="missing.json: can't be read: No such file"):
        view(GraphFile.at(tmp_path / "missing.json"), 0, browse=False, say=print)
    for port in (-1, 65536):
        with pytest.raises(og.ArgumentError, match=f"--port must be between 0 and 65535, got {port}"):
            view(GraphFile.at(path), port, browse=False, say=print)
    with socket.create_server(("localhost", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            og.ArgumentError, match=f"port {port} can't be used: .*; choose another with --port"
        ):
            view(GraphFile.at(path), port, browse=False, say=print)


# --- assets ---------------------------------------------------------------------------------------------


def test_assets_are_shipped():
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["onednn_graph.graph.pictures"]
    listed = {file for pattern in patterns for file in (ROOT / "graph" / "pictures").glob(pattern)}
    assert listed == {file for file in ASSETS.rglob("*") if file.is_file()}


def test_the_vendored_library_is_the_released_one():
    readme = (ASSETS / "README.md").read_text(encoding="utf-8")
    recorded = dict(re.findall(r"`([\w.-]+)`.*?`([0-9a-f]{64})`", readme))
    assert set(recorded) == {"dagre.min.js", "dagre.LICENSE"}
    for name, digest in recorded.items():
        assert hashlib.sha256((ASSETS / name).read_bytes()).hexdigest() == digest
    assert "Permission is hereby granted, free of charge" in (ASSETS / "dagre.LICENSE").read_text(
        encoding="utf-8"
    )


@pytest.mark.parametrize("script", sorted(ASSETS.glob("*.js")), ids=lambda file: file.name)
def test_scripts_make_no_markup_of_data(script):
    text = script.read_text(encoding="utf-8")
    assert "</script" not in text.lower()
    assert "<!--" not in text
    for sink in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "fetch(",
        "XMLHttpRequest",
    ):
        assert sink not in text, f"{script.name} uses {sink}"


def test_the_frame_is_escaped():
    shown = named("'\"><b>")._repr_html_()
    assert html.unescape(shown) != shown
    assert "<b>" not in shown


def test_a_graph_is_a_text():
    graph = og.Graph()
    x = graph.input("x", "f32", [2, 8, 8, 4])
    w = graph.input("w", "f32", [3, 3, 4, 8], property_type="constant")
    y = graph.op(
        "Convolution", x, w, strides=[1, 1], pads_begin=[1, 1], pads_end=[1, 1], dilations=[1, 1], name="conv"
    )
    graph.op("ReLU", y, name="y")
    assert str(graph).splitlines() == [
        "Graph(2 ops), fpmath_mode strict",
        "  x: f32 2x8x8x4 (input)",
        "  w: f32 3x3x4x8 (input, constant)",
        "  conv: f32 2x8x8x8 = Convolution(x, w, strides=[1, 1], pads_begin=[1, 1], pads_end=[1, 1], dilations=[1, 1])",
        "  y: f32 2x8x8x8 (output) = ReLU(conv)",
    ]
    assert repr(graph) == "Graph(2 ops)"
    assert str(og.Graph()) == "Graph(0 ops), fpmath_mode strict"
