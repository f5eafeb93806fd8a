"""Pictures of models in a real browser: modules that open and close, finding, colours, the map; and flame charts."""

import re

import numpy as np
import onednn_graph as og
import pytest
from browser_pages import opened_context, playwright, watched_page  # noqa: F401 -- fixtures

CONV = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
BLOCKS = 16


def blocks(count=BLOCKS):
    """`stem`, then `body.0`, `body.1`, … of four ops each, with a way around them."""
    graph = og.Graph()
    rng = np.random.default_rng(0)
    x = graph.input("image", "f32", [1, 6, 6, 4])
    y = graph.op("Abs", x, name="stem")
    for number in range(count):
        name = f"body.{number}"
        weights = graph.constant(rng.random((3, 3, 4, 4), np.float32), name=f"{name}.conv.weight")
        inner = graph.op("Convolution", y, weights, **CONV, name=f"{name}.conv")
        inner = graph.op("ReLU", inner, name=f"{name}.act.relu")
        inner = graph.op("Exp", inner, name=f"{name}.act.exp")
        y = graph.op("Add", inner, y, name=f"{name}.add")
    graph.op("Tanh", y, name="head")
    return graph


def drawn(watched, graph, tmp_path, **arguments):
    graph.to_html(tmp_path / "graph.html", **arguments)
    return watched.show(tmp_path / "graph.html")


def shown(page, kind="node"):
    return page.evaluate(
        "(kind) => [...document.querySelectorAll('#scene .' + kind + '[data-id]')].map((one) => one.dataset.id)",
        kind,
    )


def module(*names):
    return " › ".join(["group", *names])


def box(page, identity):
    return page.locator(f'#scene [data-id="{identity}"]')


def overlaps(page):
    """Pairs of boxes that lie over each other, and boxes that stand out of the frame of their module."""
    return page.evaluate(
        """() => {
          const number = (rect, name) => Number(rect.getAttribute(name));
          const place = (r) => ({ left: number(r, 'x'), top: number(r, 'y'), right: number(r, 'x') + number(r, 'width'),
            bottom: number(r, 'y') + number(r, 'height') });
          const own = (node) => place(node.querySelector('rect:not(.behind)'));
          const boxes = [...document.querySelectorAll('#scene .node')].map(own);
          const frames = [...document.querySelectorAll('#scene .frame .ground')].map(place);
          let count = 0;
          const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
          boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b) => { if (meet(a, b)) count += 1; }));
          for (const box of boxes) for (const frame of frames) {
            const inside = box.left >= frame.left && box.right <= frame.right
              && box.top >= frame.top && box.bottom <= frame.bottom;
            if (meet(box, frame) && !inside) count += 1;
          }
          return count;
        }"""
    )


def test_modules_are_closed_until_they_are_clicked(watched, tmp_path):
    page = drawn(watched, blocks(), tmp_path, backend="numpy")
    closed = [module("body", str(number)) for number in range(BLOCKS)]
    assert [one for one in shown(page) if one.startswith("group")] == closed
    assert shown(page, "closer") == [module("body")]
    assert box(page, closed[0]).get_attribute("aria-expanded") == "false"
    assert overlaps(page) == 0
    first = box(page, closed[0])
    assert "4 ops" in first.text_content()
    assert "body.0" in first.text_content()
    before = first.bounding_box()
    first.click()
    assert set(shown(page, "closer")) == {module("body"), closed[0]}
    kinds = page.locator("#scene .node.op .kind").all_text_contents()
    assert [kinds.count(kind) for kind in ("Convolution", "Add", "Abs", "Tanh")] == [1, 1, 1, 1]
    assert module("body", "0", "act") in shown(page)  # what is inside of it is closed
    assert overlaps(page) == 0
    after = box(page, closed[0]).bounding_box()
    assert [after["x"], after["y"]] == pytest.approx([before["x"], before["y"]], abs=2)
    playwright.expect(page.locator("#panel h2")).to_have_text("body.0")
    box(page, closed[0]).click()
    assert shown(page, "closer") == [module("body")]
    watched.check_silence()


def test_all_depths_open_and_close(watched, tmp_path):
    page = drawn(watched, blocks(3), tmp_path, backend="numpy")
    assert len(shown(page)) == 2 + 2 + 12  # a model this small is open
    for depth in range(3):
        page.get_by_role("button", name="Collapse").click()
        assert len(shown(page, "closer")) == (4, 1, 0)[depth]
    assert [one for one in shown(page) if one.startswith("group")] == [module("body")]
    for depth in range(3):
        page.keyboard.press("]")
        assert len(shown(page, "closer")) == (1, 4, 7)[depth]
        assert overlaps(page) == 0
    assert page.locator("#scene .node.op").count() == 14
    watched.check_silence()


def test_tensors_come_in_and_leave_once(watched, tmp_path):
    """What several ops of a module read comes in by one line; lines meet at its border."""
    page = drawn(watched, blocks(), tmp_path, backend="numpy")
    edges = page.locator("#scene .edge").count()
    assert edges == 1 + 1 + (BLOCKS + 1) + 2  # image, stem → body, through its blocks, body → head → output
    box(page, module("body", "0")).click()
    assert (
        page.locator("#scene .edge").count() == edges + 2 + 2 + 1
    )  # to conv and add, conv → act → add, out of it
    watched.check_silence()


def test_keys_open_and_close_modules(watched, tmp_path):
    page = drawn(watched, blocks(), tmp_path, backend="numpy")
    one = module("body", "1")
    box(page, one).focus()
    page.keyboard.press("Enter")
    assert one in shown(page, "closer")
    assert page.evaluate("document.activeElement.dataset.id") == one
    page.keyboard.press("Enter")
    assert one in shown(page)
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.id") == module("body", "2")
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.dataset.id") == one
    watched.check_silence()


def test_constants_are_lines_of_their_op(watched, tmp_path):
    graph = blocks(2)
    page = drawn(watched, graph, tmp_path, backend="numpy")
    assert page.locator("#scene .node.input").count() == 1
    lines = page.locator("#scene .held")
    assert lines.all_text_contents() == ["weights f32 3x3x4x4"] * 2
    lines.last.click()
    playwright.expect(page.locator("#panel h2")).to_have_text("body.1.conv.weight")
    playwright.expect(page.locator("#panel")).to_contain_text("constant of the graph")
    watched.check_silence()


@pytest.mark.parametrize(
    ("wanted", "count", "first"),
    [
        ("body.7.act.exp", 1, "Exp"),
        ("kind:exp", BLOCKS, "Exp"),
        ("KIND:convolution", BLOCKS, "Convolution"),
        ("body.5.conv.weight", 1, "Convolution"),
        ("type:f32", 4 * BLOCKS + 4, "Abs"),
        ("type:bf16", 0, None),
        ("name:body.11", 6, "Convolution"),
    ],
)
def test_finding_goes_into_closed_modules(watched, tmp_path, wanted, count, first):
    page = drawn(watched, blocks(), tmp_path, backend="numpy")
    page.keyboard.press("/")
    page.keyboard.type(wanted)
    assert page.locator("#found").inner_text() == f"{count} match{'' if count == 1 else 'es'}"
    assert (page.locator("#scene .node.match").count() > 0) == (count > 0)
    page.keyboard.press("Enter")
    if first is None:
        return
    assert page.locator("#found").inner_text() == f"1 of {count}"
    playwright.expect(page.locator("#panel h2")).to_have_text(first)
    target = page.locator("#scene .node.pinned")
    frame, place = page.locator("#picture").bounding_box(), target.bounding_box()
    assert frame["x"] <= place["x"] <= place["x"] + place["width"] <= frame["x"] + frame["width"]
    assert frame["y"] <= place["y"] <= place["y"] + place["height"] <= frame["y"] + frame["height"]
    watched.check_silence()


def fills(page):
    return page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll('#scene .node.op')].map((node) =>
          [node.querySelector('.kind').textContent + ' ' + node.dataset.id,
           getComputedStyle(node.querySelector('rect')).fill]))"""
    )


def by_kind(colours):
    groups = {}
    for name, colour in colours.items():
        groups.setdefault(name.split(" ")[0], set()).add(colour)
    return groups


def test_colours_tell_backends_kinds_layouts_and_partitions(watched, tmp_path, onednn):
    graph = blocks(2)
    graph.finalize()
    page = drawn(watched, graph, tmp_path)
    choice = page.locator("#colour")
    assert choice.locator("option").all_text_contents() == ["partition", "backend", "kind", "layout"]
    choice.select_option("backend")
    backends = {p.backend for p in graph.get_partitions()}
    assert len(set(fills(page).values())) == len(backends)
    keys = page.locator("#panel .keyline .what").all_text_contents()
    assert set(keys) == backends
    choice.select_option("kind")
    colours = by_kind(fills(page))
    assert all(len(one) == 1 for one in colours.values())
    assert colours["Convolution"] != colours["Add"]
    choice.select_option("layout")
    assert "acdb" in page.locator("#panel .keyline .what").all_text_contents()
    choice.select_option("partition")
    colours = fills(page)
    ids = {f"{op.kind} op {op.id}": p.id for p in graph.get_partitions() for op in p.ops}
    assert len(set(colours.values())) == len({ids[name] for name in colours})
    watched.check_silence()


def test_times_make_a_heat_map(watched, tmp_path):
    graph = blocks()
    model = graph.compile(backend="numpy")
    with og.profile() as prof:
        model(np.ones((1, 6, 6, 4), np.float32))
    model.to_html(tmp_path / "model.html", profile=prof)
    page = watched.show(tmp_path / "model.html")
    assert page.locator("#colour").input_value() == "time"
    heats = page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll('#scene .node.hot')].map((node) =>
          [node.dataset.id, Number(node.style.getPropertyValue('--heat'))]))"""
    )
    own = prof.op_seconds()
    sums = {}
    for op in graph.ops:
        name = module(*op.name.split(".")[:2]) if op.name.startswith("body") else f"op {op.id}"
        sums[name] = sums.get(name, 0.0) + own[op.id]
    hottest = max(sums.values())
    assert heats == pytest.approx({name: seconds / hottest for name, seconds in sums.items()}, abs=0.001)
    listed = page.locator("#panel .key .more").all_text_contents()
    ranked = sorted(graph.ops, key=lambda op: -own[op.id])
    assert listed == [op.name for op in ranked[: len(listed)]]
    page.locator("#panel .key .entry").first.click()
    playwright.expect(page.locator("#panel h2")).to_have_text(ranked[0].kind)
    assert f"op {ranked[0].id}" in shown(page)
    page.locator("#colour").select_option("kind")
    assert page.locator("#scene .hot").count() == 0
    watched.check_silence()


def test_the_map_shows_what_is_in_view_and_goes_there(watched, tmp_path):
    page = drawn(watched, blocks(), tmp_path, backend="numpy")
    small = page.locator("#minimap")
    playwright.expect(small).to_be_visible()
    place = small.bounding_box()
    page.mouse.click(place["x"] + place["width"] / 2, place["y"] + place["height"] - 8)
    head = page.locator("#scene .node", has=page.get_by_text("Tanh", exact=True)).bounding_box()
    frame = page.locator("#picture").bounding_box()
    assert frame["y"] < head["y"] < frame["y"] + frame["height"]
    page.get_by_role("button", name="Fit").click()
    playwright.expect(small).to_be_hidden()
    watched.check_silence()


def test_reorders_stand_where_they_are(watched, tmp_path, onednn):
    """Each reorder and conversion of the explanation is at an edge of the op that it is done for."""
    graph = og.Graph()
    rng = np.random.default_rng(0)
    x = graph.input("image", "f32", [1, 16, 8, 8])
    weights = graph.constant(rng.random((32, 16, 3, 3), np.float32), name="weight")
    y = graph.op("Convolution", x, weights, **CONV, data_format="NCX", weights_format="OIX", name="conv")
    graph.op("Exp", y, name="result")
    model = graph.compile()
    changes = [
        step.change
        for found in model.explain().values()
        for step in (found.steps if found is not None else ())
        if step.change and not step.prepared
    ]
    assert changes
    model.to_html(tmp_path / "model.html")
    page = watched.show(tmp_path / "model.html")
    texts = page.locator("#scene .edge.copy text").all_text_contents()
    written = [part for text in texts for part in text.rpartition("⇄ ")[2].split(", ")]
    assert sorted(written) == sorted(changes)
    # What comes plain is reordered above the first op, what must be plain again below the last.
    tops = {
        kind: page.locator("#scene .node.op", has_text=kind).bounding_box()["y"] for kind in ("Conv", "Exp")
    }
    copies = page.locator("#scene .edge.copy text")
    for number, text in enumerate(texts):
        change, y = text.rpartition("⇄ ")[2], copies.nth(number).bounding_box()["y"]
        if change.startswith("abcd → "):
            assert y < tops["Conv"]
        if change.endswith(" → abcd"):
            assert y > tops["Exp"]
    watched.check_silence()


def test_2500_ops_open_section_by_section(watched, tmp_path):
    """Of a large graph without names only what is open is laid out and drawn."""
    graph = og.Graph()
    y = graph.input("x", "f32", [4, 4])
    other = y
    while len(graph.ops) < 2500:
        step = graph.op("ReLU", y)
        other, y = step, graph.op("Add", step, other)
    page = drawn(watched, graph, tmp_path, backend="numpy")
    assert shown(page)[:2] == [module("ops 1–50"), module("ops 51–100")]
    assert page.locator("#scene .node").count() == 50 + 2
    box(page, module("ops 51–100")).click()
    assert page.locator("#scene .node.op").count() == 50
    assert overlaps(page) == 0
    page.locator("#search").fill("op 2")
    page.keyboard.press("Enter")
    assert page.locator("#scene .node.op.pinned").count() == 1
    watched.check_silence()


def test_layers_that_are_alike_are_placed_once(watched, tmp_path):
    page = drawn(watched, blocks(), tmp_path, backend="numpy")
    page.evaluate(
        """() => {
          const { layout } = dagre;
          window.placed = 0;
          window.dagre = { ...dagre, layout: (g) => { window.placed += 1; return layout(g); } };
        }"""
    )
    for _ in range(2):
        page.keyboard.press("]")
    assert 3 <= page.evaluate("window.placed") < BLOCKS  # all of it, the body, and forms of its blocks
    assert page.locator("#scene .node.op").count() == 4 * BLOCKS + 2
    assert overlaps(page) == 0
    places = page.evaluate(
        """(number) => [...Array(number).keys()].map((block) => {
          const frame = [...document.querySelectorAll('#scene .closer')]
            .find((one) => one.dataset.id === `group › body › ${block}`).querySelector('rect');
          const ops = [...document.querySelectorAll('#scene .node.op')]
            .filter((one) => one.getAttribute('aria-label').includes(` body.${block}.`));
          return ops.map((op) => ['x', 'y'].map(
            (axis) => Math.round(op.querySelector('rect').getAttribute(axis) - frame.getAttribute(axis))
          ));
        })""",
        BLOCKS,
    )
    assert [len(one) for one in places] == [4] * BLOCKS
    assert len({str(one) for one in places[4:-1]}) == 1  # those before have partitions of one digit
    lines = page.evaluate(
        "() => [...document.querySelectorAll('#scene .edge .line')].map((one) => one.getAttribute('d'))"
    )
    assert len(set(lines)) == len(lines)  # each goes where its own ops are
    watched.check_silence()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_flame_chart_shows_what_ran(watched, tmp_path, scheme):
    watched.page.emulate_media(color_scheme=scheme)
    model = blocks(3).compile(backend="numpy")
    with og.profile() as prof:
        for _ in range(2):
            model(np.ones((1, 6, 6, 4), np.float32))
    prof.to_html(tmp_path / "flames.html")
    page = watched.show(tmp_path / "flames.html")
    assert page.title().startswith("Profile: ")
    drawn_rows = page.evaluate(
        """() => {
          const canvas = document.querySelector('#chart');
          const g = canvas.getContext('2d');
          const ratio = window.devicePixelRatio;
          const all = g.getImageData(0, 0, canvas.width, canvas.height).data;
          return [0, 1].map((row) => {
            const first = 4 * canvas.width * Math.round((26 + row * 24 + 4) * ratio);
            return all.slice(first, first + 4 * canvas.width).some((value, i) => i % 4 === 3 && value > 0);
          });
        }"""
    )
    assert drawn_rows == [True, True]
    page.locator("#chart").focus()
    page.keyboard.press("ArrowRight")
    playwright.expect(page.locator("#told")).to_contain_text("partition 0")
    page.keyboard.press("ArrowRight")
    playwright.expect(page.locator("#told")).to_contain_text("numpy:Abs")
    page.keyboard.press("/")
    page.keyboard.type("numpy:exp")
    assert re.match(r"6 times, [\d.]+ (ms|µs|s)$", page.locator("#found").inner_text())
    page.keyboard.press("Enter")
    playwright.expect(page.locator("#told strong")).to_have_text("Exp")
    page.get_by_role("button", name="Zoom in").click()
    page.get_by_role("button", name="Fit").click()
    assert page.locator("#table .ogp td.s", has_text="Exp").count() == 3
    watched.check_silence()
