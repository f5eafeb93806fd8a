"""Where ops stand in pictures, after their names, and what profiles make of themselves for notebooks and pages."""

import html
import json
import re

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.graph.pictures.description import describe_compiled
from onednn_graph.graph.pictures.modules import MOST_TOGETHER, SECTION, places


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (["conv", "", "act"], [((), "conv"), ((), ""), ((), "act")]),
        (["a.conv1", "a.bn1"], [(("a",), "conv1"), (("a",), "bn1")]),
        (["a.conv1", "b.conv1"], [((), "a.conv1"), ((), "b.conv1")]),  # a module of one op is none
        (
            ["encoder.layer.0.q", "encoder.layer.0.k", "encoder.layer.1.q", "encoder.layer.1.k"],
            [(("encoder.layer", number), part) for number in "01" for part in "qk"],
        ),
        (
            ["a.relu", "a.relu.2", "a.relu.3", "a.add"],
            [(("a",), t) for t in ("relu", "relu.2", "relu.3", "add")],
        ),
        (
            ["stem", "a.x", "a.b.y", "a.b.z"],
            [((), "stem"), (("a",), "x"), (("a", "b"), "y"), (("a", "b"), "z")],
        ),
        (
            [
                "/layer1/layer1.0/conv1/Conv",
                "/layer1/layer1.0/relu/Relu",
                "/layer1/layer1.1/conv1/Conv",
                "/fc/Gemm",
            ],
            [
                (("layer1", "layer1.0"), "conv1/Conv"),
                (("layer1", "layer1.0"), "relu/Relu"),
                (("layer1",), "layer1.1/conv1/Conv"),
                ((), "fc/Gemm"),
            ],
        ),
        (
            ["block_1/expand/Conv2D", "block_1/expand/Relu"],
            [(("block_1/expand",), t) for t in ("Conv2D", "Relu")],
        ),
        # What is no path has no groups.
        (["</a><b.c>", "</a><b.d>", "1. first one", "1. second", "a..b", "a..c", "."], None),
    ],
)
def test_places(names, wanted):
    found = places(dict(enumerate(names)))
    expected = [((), name) for name in names] if wanted is None else wanted
    assert [(place.path, place.title) for place in found.values()] == expected


@pytest.mark.parametrize(
    ("ops", "wanted"),
    [
        # A block that is called twice, with another module between.
        ("b.0 b.1<b.0 mid<b.1 b.0.2<mid b.1.2<b.0.2", "b b - b(2) b(2)"),
        ("b.0 b.1<b.0 m1<b.1 m2<m1 b.2<m2 b.3<b.2 m3<b.3 b.4<m3 b.5<b.4", "b b - - b(2) b(2) - b(3) b(3)"),
        # Twice side by side, and once with a way around.
        ("b.0 b.1<b.0 mid b.2<mid b.3<b.2 sum<b.1,b.3", "b b - b b -"),
        ("in b.0<in b.1<b.0,in out<b.1", "- b b -"),
        # One of a second call alone is no group, and what is read of the first does not count.
        ("b.0 b.1<b.0 mid<b.1 b.2<mid", "b b - -"),
        ("b.0 mid<b.0 b.1<b.0 b.2<mid,b.1 b.3<b.2", "b - b b(2) b(2)"),
        # The inner one is called twice within one call of the outer.
        ("o.i.a o.i.b<o.i.a o.x<o.i.b o.i.c<o.x o.i.d<o.i.c", "o/i o/i o o/i(2) o/i(2)"),
        # The inner one once in each call of the outer.
        (
            "o.a o.i.a<o.a o.i.b<o.i.a m<o.i.b o.b<m o.i.c<o.b o.i.d<o.i.c",
            "o o/i o/i - o(2) o(2)/i o(2)/i",
        ),
    ],
)
def test_a_module_that_is_called_again_is_another_group(ops, wanted):
    parted = [text.partition("<") for text in ops.split()]
    numbers = {name: number for number, (name, _, _) in enumerate(parted)}
    read = {numbers[name]: {numbers[o] for o in others.split(",") if o} for name, _, others in parted}
    found = places({number: name for name, number in numbers.items()}, read)
    expected = [() if path == "-" else tuple(path.replace("(", " (").split("/")) for path in wanted.split()]
    assert [place.path for place in found.values()] == expected


def test_many_ops_side_by_side_are_parted_into_sections():
    few = places(dict.fromkeys(range(MOST_TOGETHER), ""))
    assert {place.path for place in few.values()} == {()}
    many = places({number: f"a.{number}x" for number in range(MOST_TOGETHER + 1)})
    assert many[0].path == many[SECTION - 1].path == ("a", f"ops 1–{SECTION}")
    assert many[SECTION].path == ("a", f"ops {SECTION + 1}–{2 * SECTION}")
    assert many[MOST_TOGETHER].path == ("a", f"ops {MOST_TOGETHER + 1}–{MOST_TOGETHER + 1}")


def compiled(name="y", backend="numpy"):
    graph = og.Graph()
    y = graph.op("ReLU", graph.input("x", "f32", [64, 64]), name=name)
    graph.op("Exp", y, name="z")
    return graph.compile(backend=backend)


def test_ops_have_the_time_of_their_steps():
    model = compiled()
    with og.profile() as prof:
        for _ in range(3):
            model(np.ones((64, 64), np.float32))
    expected = {}
    for event in prof.events:
        if event.op is not None:
            expected[event.op] = expected.get(event.op, 0.0) + event.seconds / 3
    assert prof.op_seconds() == pytest.approx(expected)
    assert len(expected) == 2
    assert {op.id: op.seconds for op in describe_compiled(model, profile=prof).ops} == prof.op_seconds()
    assert all(op.seconds is None for op in describe_compiled(model).ops)


def test_a_fused_op_has_no_time_and_the_layout_of_its_step(onednn):
    graph = og.Graph()
    x = graph.input("x", "f32", [1, 8, 8, 16])
    w = graph.constant(np.ones((3, 3, 16, 16), np.float32), name="w")
    conv = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
    graph.op("ReLU", graph.op("Convolution", x, w, **conv, name="conv"), name="act")
    model = graph.compile()
    data = np.ones((1, 8, 8, 16), np.float32)
    model(data)
    with og.profile() as prof:
        model(data)
    conv, act = describe_compiled(model, profile=prof).ops
    assert conv.seconds > 0
    assert act.seconds is None
    assert conv.layout == act.layout != ""


def rows_of(text):
    rows = re.findall(r"<tr>(.*?)</tr>", text)
    return [
        [html.unescape(re.sub("<.*?>", "", cell)) for cell in re.findall(r"<t[dh].*?>(.*?)</t[dh]>", row)]
        for row in rows
    ]


def test_a_profile_is_a_table_in_notebooks():
    model = compiled()
    with og.profile() as prof:
        for _ in range(4):
            model(np.ones((64, 64), np.float32))
    head, *rows = rows_of(prof._repr_html_())
    assert head == ["", "calls", "total ms", "mean ms", "share", "implementation", "tensors"]
    names = [row[0] for row in rows]
    assert names == ["partition 0: ReLU", "ReLU", "partition 1: Exp", "Exp"]
    assert {row[1] for row in rows} == {"4"}
    for row, line in zip(rows[1::2], sorted(prof.steps, key=lambda line: line.partition), strict=True):
        assert row[2] == f"{line.seconds * 1e3:.3f}"
        assert row[5:] == [line.implementation, ", ".join(line.tensors)]


def test_an_empty_profile_is_a_sentence(tmp_path):
    with og.profile() as prof:
        pass
    assert prof._repr_html_() == "<p>Nothing was executed while the profile was open.</p>"
    prof.to_html(tmp_path / "flames.html")
    assert "Nothing was executed" in (tmp_path / "flames.html").read_text(encoding="utf-8")


def test_a_flame_chart_holds_every_event(tmp_path):
    model = compiled()
    with og.profile() as prof:
        for _ in range(4):
            model(np.ones((64, 64), np.float32))
    prof.to_html(tmp_path / "flames.html")
    text = (tmp_path / "flames.html").read_text(encoding="utf-8")
    data = json.loads(re.search(r'id="profile">(.*?)</script>', text)[1])
    drawn = sorted(
        (data["lines"][number]["name"], start, seconds, data["threads"][thread])
        for number, start, seconds, thread in data["events"]
    )
    assert drawn == sorted(
        (event.name, round(event.start * 1e6, 2), round(event.seconds * 1e6, 2), event.thread)
        for event in prof.events
    )
    assert "default-src 'none'" in text
    assert not re.search(r"(src|href)=\"(?!data:)", text)
    with pytest.raises(og.GraphFileError, match="can't be written"):
        prof.to_html(tmp_path / "missing" / "flames.html")


def test_names_are_only_text_in_profiles():
    class Hostile(og.profiling.Profile):
        pass

    prof = Hostile()
    name = "</td><img src=x onerror=alert(1)>"
    prof.events.append(
        og.profiling.Event(
            kind=og.profiling.EventKind.primitive, name=name, implementation=name, tensors=(name,), partition=None,
            label=name, start=0.0, seconds=1.0, thread=1,
        )
    )  # fmt: skip
    shown = prof._repr_html_()
    assert "<img" not in shown
    assert rows_of(shown)[1][0] == name
