"""The partitioner's steps in a real browser: the slider, what it colours, and what it says of each step."""

import re

import numpy as np
import onednn_graph as og
import pytest
from browser_pages import opened_context, playwright, watched_page  # noqa: F401 -- fixtures
from onednn_graph.graph.pictures.description import describe
from onednn_graph.graph.pictures.html import save_html

CONV = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
OPS = 2500


def mixed():
    """Ops 0 to 3: a fused convolution, what NumPy has, and a product of doubles, which oneDNN refuses twice."""
    graph = og.Graph()
    y = graph.op(
        "Convolution",
        *[graph.input(n, "f32", s) for n, s in (("x", [1, 8, 8, 4]), ("w", [3, 3, 4, 8]))],
        **CONV,
        name="conv",
    )
    graph.op("GreaterEqual", graph.op("ReLU", y, name="act"), graph.input("limit", "f32", [1]), name="mask")
    doubles = graph.input("doubles", "f64", [4, 4])
    graph.op("MatMul", doubles, doubles, name="product")
    return graph


def modules(count=6):
    graph = og.Graph()
    y = graph.input("x", "f32", [1, 8, 8, 4])
    for number in range(count):
        filters = graph.constant(np.ones((3, 3, 4, 4), np.float32), name=f"body.{number}.weight")
        z = graph.op("Convolution", y, filters, **CONV, name=f"body.{number}.conv")
        z = graph.op("ReLU", z, name=f"body.{number}.act")
        y = graph.op("HostPower", z, y, name=f"body.{number}.power")
    return graph


def chain():
    graph = og.Graph()
    y = other = graph.input("x", "f32", [4, 4])
    while len(graph.ops) < OPS:
        power = len(graph.ops) % 10 == 0
        step = graph.op("HostPower", y, y) if power else graph.op("ReLU", y)
        other, y = step, graph.op("Add", step, other)
    return graph


@pytest.fixture
def page(watched, onednn, tmp_path):
    mixed().to_html(tmp_path / "graph.html")
    page = watched.show(tmp_path / "graph.html")
    opened(page)
    return page


def opened(page):
    page.get_by_role("button", name="Partitioning").click()


def slider(page):
    return page.get_by_role("slider", name="Steps of the partitioner")


def told(page):
    return " ".join(page.locator("#partitioning .told").inner_text().split())


def ids(page, name):
    """Of the boxes of a class, the names of their ops, or of their modules."""
    return page.evaluate(
        "(name) => [...document.querySelectorAll('#scene .node.' + name)].map((one) => "
        "one.querySelector('.name')?.textContent ?? one.querySelector('.kind').textContent)",
        name,
    )


def frames(page, number=3):
    page.evaluate(
        "async (number) => { for (let i = 0; i < number; i += 1) await new Promise(requestAnimationFrame); }",
        number,
    )


def test_it_begins_with_nothing_and_says_what_will_come(page, watched):
    playwright.expect(page.locator("#partitioning")).to_be_visible()
    playwright.expect(slider(page)).to_be_focused()
    assert sorted(ids(page, "later")) == ["act", "conv", "mask", "product"]
    assert page.locator("#scene .hull").count() == 1
    playwright.expect(page.locator("#scene .hull")).to_be_hidden()
    assert told(page).startswith("Nothing is taken yet.")
    assert "attention (onednn)" in told(page)
    sums = page.locator("#partitioning .sum").all_text_contents()
    assert sums == ["policy fusion", "steps 5", "refused 2"]
    assert slider(page).get_attribute("aria-valuetext") == "before the first of 5 steps: nothing is taken yet"
    watched.check_silence()


def test_keys_go_through_the_steps(page, watched):
    page.keyboard.press("ArrowRight")
    assert ids(page, "asked") == ["conv", "act"]
    assert sorted(ids(page, "later")) == ["mask", "product"]
    playwright.expect(page.locator("#scene .hull")).to_be_visible()
    assert told(page).startswith(
        "onednn, convolution with post-ops took Convolution conv ReLU act → partition 0"
    )
    assert "It ends at ReLU 'act', for it takes no GreaterEqual along." in told(page)
    assert slider(page).get_attribute("aria-valuetext") == (
        "step 1 of 5: onednn, convolution with post-ops, took Convolution 'conv', ReLU 'act' as partition 0; "
        "it ends at ReLU 'act', for it takes no GreaterEqual along"
    )
    page.keyboard.press("ArrowRight")
    assert ids(page, "asked") == []
    assert ids(page, "refused") == ["mask"]
    assert sorted(ids(page, "later")) == ["mask", "product"]
    assert "refused GreaterEqual mask no lowering of GreaterEqual It is taken in step 4 by numpy" in told(
        page
    )
    assert slider(page).get_attribute("aria-valuetext") == (
        "step 2 of 5: onednn, single op, refused GreaterEqual 'mask': no lowering of GreaterEqual"
    )
    page.keyboard.press("End")
    assert ids(page, "later") == []
    assert ids(page, "asked") == ["product"]
    assert "Before, in step 3, onednn, single op, refused: oneDNN's primitives take no f64" in told(page)
    page.keyboard.press("ArrowLeft")
    assert ids(page, "later") == ["product"]
    page.keyboard.press("Home")
    assert sorted(ids(page, "later")) == ["act", "conv", "mask", "product"]
    assert ids(page, "asked") == ids(page, "refused") == []
    watched.check_silence()


def test_what_is_taken_has_the_colour_of_its_partition(page, watched):
    page.keyboard.press("ArrowRight")
    frames(page)
    fill = '(id) => getComputedStyle(document.querySelector(`#scene [data-id="${id}"] rect`)).fill'
    node = {
        name: page.locator("#scene .node.op", has=page.get_by_text(name, exact=True)).get_attribute("data-id")
        for name in ("conv", "act", "mask")
    }
    conv, act, mask = (page.evaluate(fill, node[name]) for name in ("conv", "act", "mask"))
    assert conv == act != mask
    swatch = page.evaluate(
        "getComputedStyle(document.querySelector('#partitioning .swatch')).backgroundColor"
    )
    assert swatch == conv
    page.keyboard.press("End")
    assert page.evaluate(fill, node["mask"]) not in (mask, conv)
    watched.check_silence()


def test_refusals_and_links_are_gone_to_without_a_mouse(page, watched):
    refusal = page.get_by_role("button", name="To the next step in which ops were refused")
    for expected in (["mask"], ["product"], ["mask"]):
        refusal.focus()
        page.keyboard.press("Enter")
        assert ids(page, "refused") == expected
    page.locator("#partitioning .told .chip", has_text="step 4").focus()
    page.keyboard.press("Enter")
    assert ids(page, "asked") == ["mask"]
    playwright.expect(slider(page)).to_be_focused()
    assert page.get_by_role("button", name="One step back").is_enabled()
    page.get_by_role("button", name="One step on").click()
    assert page.get_by_role("button", name="One step on").is_disabled()
    page.locator("#partitioning .told .chip", has_text="product").click()
    playwright.expect(page.locator("#panel h2")).to_have_text("MatMul")
    watched.check_silence()


def test_escape_and_the_button_close_it_and_all_is_as_before(page, watched):
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Escape")
    playwright.expect(page.locator("#partitioning")).to_be_hidden()
    button = page.get_by_role("button", name="Partitioning")
    playwright.expect(button).to_be_focused()
    assert button.get_attribute("aria-expanded") == "false"
    assert ids(page, "later") == ids(page, "asked") == []
    page.keyboard.press("Enter")
    playwright.expect(page.locator("#partitioning")).to_be_visible()
    assert slider(page).input_value() == "1"  # where it was left
    assert ids(page, "asked") == ["conv", "act"]
    watched.check_silence()


def test_other_colours_and_the_chart_of_memory_come_back(watched, onednn, tmp_path):
    model = modules().compile()
    image = np.ones((1, 8, 8, 4), np.float32)
    with og.profile() as prof:
        model(image)
    model.to_html(tmp_path / "model.html", profile=prof)
    page = watched.show(tmp_path / "model.html")
    assert page.locator("#colour").input_value() == "time"
    playwright.expect(page.locator("#memory")).to_be_visible()
    opened(page)
    assert page.locator("#colour").input_value() == "partition"
    playwright.expect(page.locator("#memory")).to_be_hidden()
    page.keyboard.press("Escape")
    assert page.locator("#colour").input_value() == "time"
    playwright.expect(page.locator("#memory")).to_be_visible()
    opened(page)
    page.locator("#colour").select_option("kind")
    page.keyboard.press("Escape")
    opened(page)
    opened(page)
    assert page.locator("#colour").input_value() == "kind"
    watched.check_silence()


def strips(page):
    """Of each closed module the share of its strip that has a colour."""
    return page.evaluate(
        """() => [...document.querySelectorAll('#scene .node.group')].map((node) => {
          const width = (one) => Number(one.getAttribute('width'));
          const all = width(node.querySelector('.behind')) - 24;
          return Math.round(100 * [...node.querySelectorAll('.segment')].map(width).reduce((a, b) => a + b, 0) / all);
        })"""
    )


def test_closed_modules_fill_their_strips(watched, onednn, tmp_path):
    modules().to_html(tmp_path / "graph.html")
    page = watched.show(tmp_path / "graph.html")
    page.get_by_role("button", name="Collapse").click()
    assert strips(page) == [100] * 6
    opened(page)
    assert strips(page) == [0] * 6
    page.keyboard.press("ArrowRight")
    assert strips(page) == [67, 0, 0, 0, 0, 0]
    assert ids(page, "asked") == [page.locator("#scene .node.group .name").first.text_content()]
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    assert strips(page) == [67] * 6
    assert len(ids(page, "refused")) == 1
    page.locator("#partitioning .told .chip", has_text="body.0.power").click()  # opens what is around it
    assert ids(page, "refused") == ["power"]
    assert "power" in ids(page, "later")
    slider(page).focus()
    page.keyboard.press("End")
    assert strips(page) == [100] * 5
    assert ids(page, "later") == []
    watched.check_silence()


def test_the_map_follows(watched, onednn, tmp_path):
    modules(12).to_html(tmp_path / "graph.html")
    page = watched.show(tmp_path / "graph.html")
    while page.locator("#scene .node.group").count():
        page.get_by_role("button", name="Expand").click()
    opened(page)
    frames(page)
    assert page.locator("#minimap .node.op.later").count() == 36
    page.keyboard.press("End")
    frames(page)
    assert page.locator("#minimap .node.op.later").count() == 0
    assert page.locator("#minimap .node.op.owned:visible").count() == 36
    watched.check_silence()


def test_a_small_frame_keeps_its_picture(watched, onednn, tmp_path):
    mixed().to_html(tmp_path / "graph.html")
    page = watched.show(tmp_path / "graph.html")
    page.set_viewport_size({"width": 600, "height": 420})
    opened(page)
    page.keyboard.press("ArrowRight")
    assert page.locator("#picture").bounding_box()["height"] > 120
    page.set_viewport_size({"width": 1280, "height": 800})
    watched.check_silence()


def test_a_graph_without_partitions_has_no_slider(watched, tmp_path):
    graph = og.Graph()
    graph.input("x", "f32", [2])
    page_file = tmp_path / "frame.html"
    page_file.write_text(
        re.sub(r"<iframe.*?srcdoc", "<iframe width=900 height=500 srcdoc", graph._repr_html_())
    )
    page = watched.show(page_file)
    inner = page.frame_locator("iframe")
    playwright.expect(inner.locator("#panel")).to_be_visible()
    assert inner.locator("#partitioning-toggle").is_hidden()


# --- large graphs ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("large") / "graph.html"
    save_html(describe(chain(), kernels=False), path)
    return path


@pytest.fixture
def large(watched, onednn, file):
    page = watched.show(file)
    page.get_by_role("button", name="Expand").click()
    assert page.locator("#scene .node.op").count() == OPS
    opened(page)
    return page


WATCH = """() => {
  window.changes = [];
  const watch = new MutationObserver((all) => window.changes.push(...all.map((one) => one.target)));
  watch.observe(document.querySelector('#scene'), { subtree: true, attributes: true, childList: true });
}"""


def test_a_step_of_a_large_graph_changes_little(large, watched):
    """Elements of the picture that are touched: its ops, the step's before, and their partition; not all of them."""
    for _ in range(3):
        large.keyboard.press("ArrowRight")
    frames(large, 30)
    large.evaluate(WATCH)
    large.keyboard.press("ArrowRight")
    frames(large, 30)
    number = large.evaluate("new Set(window.changes).size")
    assert 0 < number < 60
    watched.check_silence()


def test_from_afar_a_step_draws_its_band_anew_and_no_other(large, watched):
    large.get_by_role("button", name="Fit").click()
    slider(large).focus()
    large.keyboard.press("ArrowRight")
    frames(large, 30)
    large.evaluate(
        "() => { for (const one of document.querySelectorAll('.overview path')) one.kept = true; }"
    )
    hued = large.locator(".overview .box.hued").count()
    large.keyboard.press("ArrowRight")
    frames(large, 5)
    kept, all_of_them = large.evaluate(
        "() => { const all = [...document.querySelectorAll('.overview path')]; "
        "return [all.filter((one) => one.kept).length, all.length]; }"
    )
    assert 0 < all_of_them - kept <= all_of_them / 3
    assert hued > 0
    marked = large.evaluate(
        "[...document.querySelectorAll('#scene .asked')].filter((one) => one.getClientRects().length).length"
    )
    assert marked == len(ids(large, "asked")) > 0  # it stands out, also from afar
    watched.check_silence()


def coloured(page):
    """Boxes from afar with and without a colour."""
    return page.evaluate(
        "() => ['.hued', '.box:not(.hued, .pill)'].map((kind) => [...document.querySelectorAll('.overview ' + kind)]"
        ".map((one) => one.getAttribute('d').split('M').length - 1).reduce((a, b) => a + b, 0))"
    )


def test_from_afar_all_is_coloured_as_it_is_taken(large, watched):
    large.get_by_role("button", name="Fit").click()
    frames(large, 30)
    assert coloured(large) == [0, OPS]
    assert large.locator(".overview .ring").count() == 0
    slider(large).focus()
    large.keyboard.press("End")
    frames(large, 30)
    assert coloured(large) == [OPS, 0]
    for _ in range(5):
        large.keyboard.press("PageDown")
    frames(large, 30)
    taken = OPS - large.locator("#scene .node.later").count()
    assert 0 < taken < OPS
    assert coloured(large) == [taken, OPS - taken]
    watched.check_silence()


def test_a_slider_that_is_pulled_moves_the_picture_when_it_rests(large, watched):
    place = slider(large).bounding_box()
    across = place["x"] + 8
    large.mouse.move(across, place["y"] + 8)
    large.mouse.down()
    before = large.locator("#scene").get_attribute("transform")
    for part in range(1, 9):
        large.mouse.move(across + part * 40, place["y"] + 8)
    large.mouse.up()
    playwright.expect(large.locator("#scene .node.asked").first).to_be_in_viewport()
    assert large.locator("#scene").get_attribute("transform") != before
    assert int(slider(large).input_value()) > 100
    watched.check_silence()
