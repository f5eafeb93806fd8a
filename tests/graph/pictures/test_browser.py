"""Pictures of graphs in a real browser, headless Chromium, and graph files in Netron."""

import json
import os
import re
import select
import signal
import subprocess
import sys
import time

import numpy as np
import onednn_graph as og
import pytest
from browser_pages import opened_context, playwright, watched_page  # noqa: F401 -- fixtures
from onednn_graph.graph.pictures.description import describe
from onednn_graph.graph.pictures.html import save_html

CONV = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
HOSTILE = "</script><img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>"
PATIENCE = 20


def fused():
    graph = og.Graph()
    x = graph.input("image", "f32", [2, 8, 8, 16])
    y = graph.op(
        "Convolution", x, graph.input("kernel", "f32", [3, 3, 16, 16], property_type="constant"), **CONV
    )
    y = graph.op("ReLU", y, name="activation")
    graph.op("GreaterEqual", y, y, name="mask")
    return graph


def drawn(watched, graph, tmp_path, **arguments):
    graph.to_html(tmp_path / "graph.html", **arguments)
    return watched.show(tmp_path / "graph.html")


def node(page, name):
    return page.locator("#scene .node", has=page.get_by_text(name, exact=True))


def overlaps(page):
    """How many pairs of nodes lie over each other, also of those that are out of view."""
    return page.evaluate(
        """() => {
          const number = (rect, name) => Number(rect.getAttribute(name));
          const boxes = [...document.querySelectorAll('#scene .node rect')].map((r) => (
            { left: number(r, 'x'), top: number(r, 'y'), right: number(r, 'x') + number(r, 'width'),
              bottom: number(r, 'y') + number(r, 'height') }));
          let count = 0;
          boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b) => {
            if (a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom) count += 1;
          }));
          return count;
        }"""
    )


def test_the_graph_is_drawn(watched, tmp_path):
    graph = fused()
    graph.finalize()
    page = drawn(watched, graph, tmp_path)
    partitions = graph.get_partitions()
    nodes = page.locator("#scene .node")
    assert nodes.count() == 3 + 1 + 1
    for name in ("Convolution", "ReLU", "activation", "GreaterEqual", "image", "weights f32 3x3x16x16"):
        playwright.expect(node(page, name).first).to_be_visible()
    assert page.locator("#scene .node.input").count() == 1
    assert page.locator("#scene .node.output").count() == 1
    assert page.locator("#scene .edge").count() == 4  # the two readings of one tensor by GreaterEqual are one
    labels = [text.split("  ")[0] for text in page.locator("#scene .edge text").all_text_contents()]
    assert [text for text in labels if not text.startswith("⇄")] == ["f32 2x8x8x16", "f32 2x8x8x16"]
    legend = page.locator("#panel .legend .entry")
    assert [text.split(" ")[0] for text in legend.locator(".what").all_text_contents()] == [
        f"#{partition.id}" for partition in partitions
    ]
    assert legend.locator(".more").all_text_contents() == [partition.backend for partition in partitions]
    assert page.locator("#scene .hull").count() == sum(len(partition.ops) > 1 for partition in partitions)
    assert overlaps(page) == 0
    watched.check_silence()


def test_a_hull_holds_its_ops_and_no_others(watched, tmp_path, onednn):
    page = drawn(watched, fused(), tmp_path)
    inside = page.evaluate(
        """() => {
          const hull = document.querySelector('#scene .hull rect').getBoundingClientRect();
          return [...document.querySelectorAll('#scene .node')].filter((node) => {
            const box = node.querySelector('rect').getBoundingClientRect();
            return box.left < hull.right && hull.left < box.right && box.top < hull.bottom && hull.top < box.bottom;
          }).map((node) => node.querySelector('text').textContent);
        }"""
    )
    assert sorted(inside) == ["Convolution", "ReLU"]


def test_a_click_pins_the_details(watched, tmp_path):
    graph = fused()
    graph.finalize()
    page = drawn(watched, graph, tmp_path)
    node(page, "Convolution").click()
    panel = page.locator("#panel")
    playwright.expect(panel.locator("h2")).to_have_text("Convolution")
    rows = dict(
        zip(
            *(
                panel.locator(f"h3:text-is('Attributes') + dl >> {tag}").all_text_contents()
                for tag in ("dt", "dd")
            ),
            strict=True,
        )
    )
    assert rows["pads_begin"] == "1 × 1"
    assert rows["data_format"] == "NXC"
    text = panel.inner_text()
    for part in ("src: image", "weights: kernel", "f32 3x3x16x16", "row-major, constant"):
        assert part in text
    for name, reason in graph.get_partitions()[0].why_not.items():
        assert f"{name}\n{reason}" in text
    panel.get_by_text("src: image").click()
    playwright.expect(panel.locator("h2")).to_have_text("image")
    assert "input of the graph" in panel.inner_text()
    page.mouse.click(20, 400)
    playwright.expect(panel.locator("h2")).to_have_text("Partitions")
    watched.check_silence()


def test_the_tooltip_names_the_kernels(watched, tmp_path, onednn):
    graph = fused()
    graph.finalize()
    page = drawn(watched, graph, tmp_path)
    tooltip = page.locator("#tooltip")
    playwright.expect(tooltip).to_be_hidden()
    node(page, "ReLU").hover()
    playwright.expect(tooltip).to_be_visible()
    text = tooltip.inner_text()
    explanation = graph.get_partitions()[0].compile().explain().only
    for implementation in (*explanation.implementations, *explanation.prepared):
        assert implementation in text
    assert "f32 2x8x8x16, row-major" in text
    page.locator("#scene .edge .hit").first.hover(force=True)
    page.mouse.move(30, 300)
    playwright.expect(tooltip).to_be_hidden()


def test_times_are_shown(watched, tmp_path):
    graph = fused()
    model = graph.compile(backend="numpy")
    with og.profile() as prof:
        model({"image": np.ones((2, 8, 8, 16), np.float32), "kernel": np.ones((3, 3, 16, 16), np.float32)})
    page = drawn(watched, graph, tmp_path, backend="numpy", profile=prof)
    times = page.locator("#panel .legend .time").all_text_contents()
    assert len(times) == len(prof.partitions)
    assert all(re.fullmatch(r"[\d.]+ (s|ms|µs)", text) for text in times)
    node(page, "Convolution").click()
    steps = page.locator("#panel .step").all_text_contents()
    assert any(re.fullmatch(r"Convolution \(numpy:Convolution\)[\d.]+ (s|ms|µs).*", text) for text in steps)
    assert "boolean 2x8x8x16" not in "".join(steps)
    watched.check_silence()


def test_search_finds_ops(watched, tmp_path):
    page = drawn(watched, fused(), tmp_path)
    page.keyboard.press("/")
    page.keyboard.type("RELU")
    assert page.locator("#found").inner_text() == "1 match"
    assert page.locator("#scene .node.match").count() == 1
    page.keyboard.press("Enter")
    playwright.expect(page.locator("#panel h2")).to_have_text("ReLU")
    page.locator("#search").fill("nothing of that name")
    assert page.locator("#found").inner_text() == "0 matches"
    page.keyboard.press("Escape")
    assert page.locator("#search").input_value() == ""
    assert page.locator("#scene.searching").count() == 0
    watched.check_silence()


def focused(page):
    return page.evaluate("document.activeElement.dataset.id ?? document.activeElement.className")


def test_keys_are_enough(watched, tmp_path):
    graph = fused()
    page = drawn(watched, graph, tmp_path)
    ids = {op.kind: f"op {op.id}" for op in graph.ops}
    page.locator("#picture").focus()
    page.keyboard.press("Tab")
    assert focused(page) == ids["Convolution"]
    page.keyboard.press("ArrowDown")
    assert focused(page) == ids["ReLU"]
    page.keyboard.press("Enter")
    playwright.expect(page.locator("#panel h2")).to_have_text("ReLU")
    assert focused(page) == "close"
    page.keyboard.press("Escape")
    playwright.expect(page.locator("#panel h2")).to_have_text("Partitions")
    assert focused(page) == ids["ReLU"]
    page.keyboard.press("ArrowUp")
    assert focused(page) == ids["Convolution"]
    before = page.locator("#scene").get_attribute("transform")
    page.keyboard.press("+")
    zoomed = page.locator("#scene").get_attribute("transform")
    assert scale(zoomed) > scale(before)
    page.keyboard.press("0")
    assert scale(page.locator("#scene").get_attribute("transform")) < scale(zoomed)
    watched.check_silence()


def scale(transform):
    return float(re.search(r"scale\(([\d.]+)\)", transform)[1])


def place(transform):
    return [float(number) for number in re.search(r"translate\((\S+) (\S+)\)", transform).groups()]


def test_the_picture_moves_and_zooms(watched, tmp_path):
    page = drawn(watched, fused(), tmp_path)
    scene = page.locator("#scene")
    x, y = place(scene.get_attribute("transform"))
    page.mouse.move(60, 500)
    page.mouse.down()
    page.mouse.move(100, 530, steps=4)
    page.mouse.up()
    assert place(scene.get_attribute("transform")) == pytest.approx([x + 40, y + 30])
    assert page.locator("#panel h2").inner_text() == "Partitions"  # a drag is no click
    target = node(page, "ReLU").bounding_box()
    at = (target["x"] + target["width"] / 2, target["y"] + target["height"] / 2)
    page.mouse.move(*at)
    page.mouse.wheel(0, -300)
    page.wait_for_function(
        f"!document.querySelector('#scene').getAttribute('transform').includes('{x + 40:.2f}')"
    )
    zoomed = node(page, "ReLU").bounding_box()
    assert zoomed["width"] > target["width"]
    assert zoomed["x"] + zoomed["width"] / 2 == pytest.approx(at[0], abs=2)
    assert zoomed["y"] + zoomed["height"] / 2 == pytest.approx(at[1], abs=2)
    page.get_by_role("button", name="Zoom out").click()
    page.get_by_role("button", name="Fit").click()
    assert node(page, "ReLU").bounding_box()["width"] <= zoomed["width"]
    watched.check_silence()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_light_and_dark(watched, tmp_path, scheme):
    watched.page.emulate_media(color_scheme=scheme)
    page = drawn(watched, fused(), tmp_path)
    contrasts = page.evaluate(
        """() => {
          const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
          const light = (colour) => {
            canvas.fillStyle = colour;
            canvas.fillRect(0, 0, 1, 1);
            const linear = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((v) => v / 255)
              .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
            return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
          };
          return [...document.querySelectorAll('#scene .node text')].map((text) => {
            const ground = getComputedStyle(text.parentNode.querySelector('rect')).fill;
            const [a, b] = [light(getComputedStyle(text).fill), light(ground)].sort((p, q) => q - p);
            return (a + 0.05) / (b + 0.05);
          });
        }"""
    )
    assert min(contrasts) >= 4.5
    watched.check_silence()


def test_a_narrow_page_has_its_panel_when_asked(watched, tmp_path):
    watched.page.set_viewport_size({"width": 500, "height": 500})
    page = drawn(watched, fused(), tmp_path)
    panel = page.locator("#panel")
    playwright.expect(panel).to_be_hidden()
    page.get_by_role("button", name="Panel").click()
    playwright.expect(panel).to_be_visible()
    page.get_by_role("button", name="Panel").click()
    playwright.expect(panel).to_be_hidden()
    node(page, "Convolution").click()
    playwright.expect(panel.locator("h2")).to_have_text("Convolution")
    panel.get_by_role("button", name="Close").click()
    playwright.expect(panel).to_be_hidden()
    watched.check_silence()


def test_hostile_names_do_nothing(watched, tmp_path):
    graph = og.Graph()
    y = graph.op("ReLU", graph.input(HOSTILE, "f32", [4]), name=f"{HOSTILE}1")
    graph.op("Abs", y, name=f"{HOSTILE}2")
    page = drawn(watched, graph, tmp_path)
    for one in page.locator("#scene .node").all():
        one.hover()
        one.click()
    playwright.expect(page.locator("#panel h2")).to_have_text(f"{HOSTILE}2")
    page.locator("#search").fill("<img")
    assert page.locator("#found").inner_text() == "4 matches"
    assert page.locator("img").count() == 0
    assert page.title().startswith("Graph: 2 ops")
    watched.check_silence()


def large(count):
    graph = og.Graph()
    y = graph.input("x", "f32", [4, 4])
    other = y
    while len(graph.ops) < count:
        step = graph.op("ReLU", y)
        other, y = step, graph.op("Add", step, other)
    return graph


def test_500_ops_are_drawn(watched, tmp_path):
    graph = large(500)
    page = drawn(watched, graph, tmp_path, backend="numpy")
    assert (
        page.locator("#scene .node.group").count() == 10
    )  # they have no modules, and so they stand in sections
    page.get_by_role("button", name="Expand").click()
    assert page.locator("#scene .node.op").count() == 500
    page.get_by_role("button", name="Fit").click()
    outside = page.evaluate(
        """() => {
          const frame = document.querySelector('#picture').getBoundingClientRect();
          const paths = [...document.querySelectorAll('#scene .overview .box')];
          const boxes = paths.map((path) => path.getBoundingClientRect());
          return boxes.filter((box) => !box.width || box.left < frame.left || box.right > frame.right
            || box.top < frame.top || box.bottom > frame.bottom).length;
        }"""
    )
    assert outside == 0
    assert page.locator("#scene .overview .box").count() > 0
    assert overlaps(page) == 0
    watched.check_silence()


def test_graphs_that_take_long_to_place_stand_in_rows(watched, tmp_path):
    graph = og.Graph()
    x = graph.input("x", "f32", [4])
    for _ in range(400):
        graph.op("ReLU", x)
    save_html(describe(graph, backend="numpy", kernels=False), tmp_path / "graph.html")
    page = watched.show(tmp_path / "graph.html")
    assert page.locator("#scene .node.op").count() == 400
    assert "rows by their depth" in page.locator("#panel .note").inner_text()
    assert overlaps(page) == 0
    watched.check_silence()


def test_a_graph_without_ops_and_a_wrong_one_are_shown(watched, tmp_path):
    empty = og.Graph()
    empty.input("x", "f32", [2, 3])
    a, b = (og.LogicalTensor(number, "f32", [2]) for number in range(2))
    cycle = og.Graph()
    cycle.add_op(og.Op(0, "ReLU", [a], [b]))
    cycle.add_op(og.Op(1, "Abs", [b], [a]))
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html><body>{empty._repr_html_()}{cycle._repr_html_()}", encoding="utf-8")
    page = watched.show(path)
    first, second = (page.frame_locator(f"iframe >> nth={number}") for number in range(2))
    playwright.expect(first.locator("#scene .node.input")).to_have_count(1)
    playwright.expect(first.locator("#panel")).to_contain_text("no ops yet")
    playwright.expect(second.locator("#scene .node.op")).to_have_count(2)
    playwright.expect(second.locator("#panel .problem")).to_contain_text("cycle")
    watched.check_silence()


def test_a_notebook_shows_graphs(watched, tmp_path):
    """Output cells of a notebook: each frame is apart from the page and from the others."""
    graph = fused()
    cells = [graph._repr_html_(), fused().compile(backend="numpy")._repr_html_()]
    path = tmp_path / "notebook.html"
    path.write_text(
        f"<!doctype html><meta charset=utf-8><body><h1>cells</h1>{'<hr>'.join(cells)}", encoding="utf-8"
    )
    page = watched.show(path)
    for number in range(2):
        frame = page.frame_locator(f"iframe >> nth={number}")
        playwright.expect(frame.locator("#scene .node.op")).to_have_count(3)
        frame.locator("#scene .node.op").first.click()
        playwright.expect(frame.locator("#panel h2")).to_have_text("Convolution")
    assert page.locator("h1").inner_text() == "cells"
    assert page.evaluate("() => document.querySelector('iframe').contentDocument") is None
    watched.check_silence()


# --- Netron ---------------------------------------------------------------------------------------------


class Served:
    """`onednn-graph view` in a process of its own."""

    def __init__(self, path, *arguments):
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "from onednn_graph.tools import main; main()",
                "view",
                str(path),
                "--no-browse",
                *arguments,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"COLUMNS": "400"},
        )

    def url(self):
        ready, _, _ = select.select([self.process.stderr], [], [], PATIENCE)
        line = self.process.stderr.readline() if ready else ""
        found = re.search(r"http://\S+", line)
        assert found, line + ("" if ready else f"nothing was said in {PATIENCE} s")
        return found[0]

    def end(self):
        """What it exits with, and said, when it is interrupted."""
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out + err


@pytest.fixture
def served():
    pytest.importorskip("netron", reason="netron is not installed; pip install '.[test-browser]'")
    started = []

    def start(path, *arguments):
        started.append(Served(path, *arguments))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
        one.process.communicate()


def in_netron(watched, url):
    """Opens Netron's page, which may ask for nothing outside of this machine here."""
    page = watched.page
    # Netron takes eval away, and the browser's driver needs it.
    page.add_init_script(
        "const own = eval; Object.defineProperty(window, 'eval', {get: () => own, set: () => {}});"
    )
    page.route(re.compile(r"^https?://(?!localhost|127\.)"), lambda route: route.abort())
    page.goto(url)
    cookies = page.get_by_role("button", name="Accept")  # it asks once
    playwright.expect(cookies.or_(page.locator("svg text")).first).to_be_visible(timeout=PATIENCE * 1000)
    if cookies.is_visible():
        cookies.click()
    return page


@pytest.mark.parametrize("suffix", [".json", ".graph"])
def test_netron_shows_saved_graphs(watched, served, tmp_path, suffix):
    graph = fused()
    path = tmp_path / f"saved{suffix}"
    graph.save(path)
    server = served(path)
    page = in_netron(watched, server.url())
    for kind in ("Convolution", "ReLU", "GreaterEqual"):
        shown = page.locator("svg").get_by_text(kind, exact=True).first
        playwright.expect(shown).to_be_visible(timeout=PATIENCE * 1000)
    assert not page.get_by_text("Error").first.is_visible()
    outside = re.compile("Failed to load resource: net::")  # its own requests
    assert [text for text in watched.complaints if not outside.search(text)] == []
    code, said = server.end()
    assert code == 130
    assert "Traceback" not in said


def test_view_takes_a_port_and_says_when_it_is_taken(served, tmp_path):
    path = tmp_path / "saved.json"
    fused().save(path)
    first = served(path)
    port = first.url().rpartition(":")[2].rstrip("/")
    second = served(path, "--port", port)
    _, err = second.process.communicate(timeout=PATIENCE)
    assert second.process.returncode == 2
    assert f"port {port} can't be used" in err
    assert "Traceback" not in err
    assert first.end()[0] == 130


def test_netron_reads_what_the_corpus_has(watched, served, corpus):
    path = corpus / "benchdnn_graph" / "pattern" / "f32" / "conv_bias_swish_fusion.json"
    if not path.exists():
        pytest.skip(f"{path.name} is not in the reference corpus")
    kinds = {op["kind"] for op in json.loads(path.read_text(encoding="utf-8"))["graph"]}
    server = served(path)
    page = in_netron(watched, server.url())
    started = time.monotonic()
    while time.monotonic() - started < PATIENCE:
        texts = set(page.locator("svg text").all_text_contents())
        if kinds <= texts:
            break
        time.sleep(0.2)
    assert kinds <= texts
    server.end()
