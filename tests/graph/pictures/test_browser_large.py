"""Large graphs in a real browser: only what is in view is drawn, and from afar a few paths stand for it."""

import onednn_graph as og
import pytest
from browser_pages import opened_context, playwright, watched_page  # noqa: F401 -- fixtures
from onednn_graph.graph.pictures.description import describe
from onednn_graph.graph.pictures.html import save_html

OPS = 2500
MOST = 400
"""Boxes, lines and hulls that may be displayed at once, of some six thousand."""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    graph = og.Graph()
    y = other = graph.input("x", "f32", [4, 4])
    while len(graph.ops) < OPS:
        step = graph.op("ReLU", y)
        other, y = step, graph.op("Add", step, other)
    path = tmp_path_factory.mktemp("large") / "graph.html"
    save_html(describe(graph, backend="numpy", kernels=False), path)
    return path


@pytest.fixture
def page(watched, file):
    page = watched.show(file)
    page.get_by_role("button", name="Expand").click()
    assert page.locator("#scene .node.op").count() == OPS
    return page


DISPLAYED = (
    "(kind) => [...document.querySelectorAll('#scene ' + kind)].filter((one) => one.getClientRects().length)"
)


def displayed(page, kind="[data-id], #scene .edge, #scene .hull"):
    return page.evaluate(f"(kind) => ({DISPLAYED})(kind).length", kind)


def settled(page):
    """Frames until nothing comes any more."""
    page.evaluate(
        """async () => {
          const count = () => document.querySelectorAll('#scene .out').length;
          for (let same = 0, last = -1; same < 3; same = count() === last ? same + 1 : 0, last = count()) {
            await new Promise(requestAnimationFrame);
          }
        }"""
    )


def in_view_but_hidden(page):
    """Boxes that lie in view, by their places, and are not displayed."""
    return page.evaluate(
        """() => {
          const frame = document.querySelector('#picture').getBoundingClientRect();
          const scene = document.querySelector('#scene').getCTM();
          const number = (r, name) => Number(r.getAttribute(name));
          return [...document.querySelectorAll('#scene .node')].filter((node) => {
            const r = node.querySelector('rect');
            const left = number(r, 'x') * scene.a + scene.e, top = number(r, 'y') * scene.a + scene.f;
            const seen = left < frame.width && left + number(r, 'width') * scene.a > 0
              && top < frame.height && top + number(r, 'height') * scene.a > 0;
            return seen && !node.getClientRects().length;
          }).length;
        }"""
    )


def test_what_is_out_of_view_is_not_displayed(page, watched):
    assert 0 < displayed(page) < MOST
    assert in_view_but_hidden(page) == 0
    playwright.expect(page.locator("#scene .overview")).to_be_hidden()
    for _ in range(12):
        page.mouse.move(400, 600)
        page.mouse.down()
        page.mouse.move(400, 60, steps=3)
        page.mouse.up()
        settled(page)
        assert in_view_but_hidden(page) == 0
        assert 0 < displayed(page) < MOST
    watched.check_silence()


def test_from_afar_a_few_paths_stand_for_everything(page, watched):
    page.get_by_role("button", name="Fit").click()
    settled(page)
    assert displayed(page) <= 3
    assert 0 < displayed(page, ".overview path") < MOST
    boxes = page.evaluate(
        "() => [...document.querySelectorAll('.overview .box')].map((p) => p.getAttribute('d').split('M').length - 1)"
        ".reduce((a, b) => a + b)"
    )
    assert boxes == OPS + 2  # the graph's input and output
    for _ in range(30):
        page.get_by_role("button", name="Zoom in").click()
    settled(page)
    playwright.expect(page.locator("#scene .overview")).to_be_hidden()
    assert in_view_but_hidden(page) == 0
    assert displayed(page) < MOST
    watched.check_silence()


def test_from_afar_boxes_are_hovered_and_clicked(page, watched):
    page.get_by_role("button", name="Fit").click()
    for _ in range(14):
        page.get_by_role("button", name="Zoom in").click()
    settled(page)
    place = page.evaluate(
        """() => {
          const frame = document.querySelector('#picture').getBoundingClientRect();
          const scene = document.querySelector('#scene').getCTM();
          const middle = (node) => {
            const n = (name) => Number(node.querySelector('rect').getAttribute(name));
            return { id: node.dataset.id, x: frame.left + (n('x') + n('width') / 2) * scene.a + scene.e,
              y: frame.top + (n('y') + n('height') / 2) * scene.a + scene.f }; };
          return [...document.querySelectorAll('#scene .node.op')].map(middle)
            .find(({ x, y }) => x > 300 && x < 900 && y > 300 && y < 500);
        }"""
    )
    page.mouse.move(place["x"], place["y"])
    playwright.expect(page.locator("#tooltip")).to_be_visible()
    page.mouse.click(place["x"], place["y"])
    playwright.expect(page.locator("#panel dd").first).to_have_text(place["id"].split()[1])
    assert page.locator("#scene .pinned").get_attribute("data-id") == place["id"]
    assert displayed(page, ".pinned") == 1  # it stands out, also from afar
    watched.check_silence()


def test_tab_goes_to_boxes_that_are_not_drawn(page, watched):
    ids = page.evaluate(
        "() => [...document.querySelectorAll('#scene [data-id]')].map((one) => one.dataset.id)"
    )
    page.locator("#picture").focus()
    for number in range(40):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.dataset.id") == ids[number]
    playwright.expect(page.locator("#scene :focus")).to_be_in_viewport()
    page.keyboard.press("Shift+Tab")
    assert page.evaluate("document.activeElement.dataset.id") == ids[38]
    watched.check_silence()


def test_search_goes_to_boxes_that_are_not_drawn(page, watched):
    page.locator("#search").fill(f"op {OPS - 1}")
    page.keyboard.press("Enter")
    settled(page)
    playwright.expect(page.locator("#scene .node.pinned")).to_be_in_viewport()
    assert in_view_but_hidden(page) == 0
    watched.check_silence()
