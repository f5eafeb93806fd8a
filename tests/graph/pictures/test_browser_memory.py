"""The memory of executions in a real browser: the chart, and what it and the graph say of each other."""

import re

import numpy as np
import onednn_graph as og
import pytest
from browser_pages import opened_context, playwright, watched_page  # noqa: F401 -- fixtures

CONV = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
BLOCKS = 4


def blocks(count=BLOCKS):
    graph, rng = og.Graph(), np.random.default_rng(0)
    y = graph.input("image", "f32", [1, 16, 16, 16])
    for number in range(count):
        name = f"body.{number}"
        weights = graph.constant(rng.random((3, 3, 16, 16), np.float32), name=f"{name}.weight")
        z = graph.op("Convolution", y, weights, **CONV, name=f"{name}.conv")
        z = graph.op("SoftMax", z, axis=-1, name=f"{name}.shares")
        y = graph.op("Add", z, y, name=f"{name}.add")
    return graph


@pytest.fixture
def profiled(onednn):
    """A compiled graph, and a profile of two executions."""
    model = blocks().compile()
    image = np.ones((1, 16, 16, 16), np.float32)
    model(image)
    with og.profile() as prof:
        model(image)
        model(image)
    return model, prof


@pytest.fixture
def page(watched, profiled, tmp_path):
    model, prof = profiled
    model.to_html(tmp_path / "model.html", profile=prof)
    return watched.show(tmp_path / "model.html")


def size(number):
    return f"{number / 1024:.1f} KiB"


def column(page, step, steps, down=60):
    """A place in the chart in the middle of a step's column."""
    box = page.locator(".timeline").bounding_box()
    return box["x"] + 62 + (step + 0.5) * (box["width"] - 74) / steps, box["y"] + down


def told(page):
    return page.locator("#memory .told").inner_text()


def test_the_chart_shows_what_the_record_says(page, watched, profiled):
    told_of = profiled[1].memory
    (stage,) = told_of.stages
    sums = page.locator("#memory .sum").all_text_contents()
    assert sums == [
        f"arena {size(told_of.arena_bytes)}",
        f"peak {size(told_of.peak.nbytes)} at step {told_of.peak.step + 1} of {len(told_of.steps)}",
        f"weights {size(told_of.constant_bytes)}",
        *([f"made of them {size(told_of.prepared_bytes)}"] if told_of.prepared_bytes else []),
    ]
    boxes = page.evaluate(
        "() => [...document.querySelectorAll('.timeline .block')].map((one) => ['x', 'y', 'width', 'height'].map("
        "(name) => Number(one.getAttribute(name))))"
    )
    assert len(boxes) == len(stage.temporaries)
    arena = page.evaluate(
        "() => ['x', 'y', 'width', 'height'].map("
        "(name) => Number(document.querySelector('.timeline .arena').getAttribute(name)))"
    )
    for one, (x, y, width, height) in zip(stage.temporaries, boxes, strict=True):
        across, up = arena[2] / len(stage.steps), arena[3] / stage.arena_bytes
        assert x == pytest.approx(arena[0] + one.first * across, abs=0.2)
        assert width == pytest.approx((one.last + 1 - one.first) * across, abs=0.2)
        assert y + height == pytest.approx(arena[1] + arena[3] - one.offset * up, abs=0.3)
        assert height == pytest.approx(max(0.6, one.nbytes * up), abs=0.2)
    line = page.locator(".timeline .used").get_attribute("d")
    heights = [float(down) for down in re.findall(r"[ML][\d.]+,([\d.]+)", line)]
    assert [round((arena[1] + arena[3] - one) * stage.arena_bytes / arena[3]) for one in heights] == [
        pytest.approx(one, abs=stage.arena_bytes / 500) for one in told_of.in_use
    ]
    watched.check_silence()


def test_a_step_of_the_chart_marks_its_op_and_a_click_opens_it(page, watched, profiled):
    steps = profiled[1].memory.steps
    number = next(n for n, step in enumerate(steps) if step.name.startswith("convolution"))
    page.mouse.move(*column(page, number, len(steps)))
    assert f"step {number + 1} · {steps[number].name} · Convolution body.0.conv · " in told(page)
    assert f"{size(profiled[1].memory.in_use[number])} in use by" in told(page)
    marked = page.locator("#scene .told")
    assert marked.count() == 1
    assert marked.get_attribute("data-id") == f"op {steps[number].op}"
    page.mouse.move(400, 100)
    assert page.locator("#scene .told").count() == 0
    last = len(steps) - 1
    page.mouse.click(*column(page, last, len(steps)))
    playwright.expect(page.locator("#panel h2")).to_have_text("Add")
    assert "body.3.add" in page.locator("#panel").inner_text()
    playwright.expect(page.locator(f'#scene [data-id="op {steps[last].op}"]')).to_be_in_viewport()
    watched.check_silence()


def test_an_op_marks_its_steps_in_the_chart(page, watched, profiled):
    steps = profiled[1].memory.steps
    node = page.locator("#scene .node.op", has=page.get_by_text("SoftMax", exact=True)).first
    number = int(node.get_attribute("data-id").split()[1])
    assert page.locator(".timeline .marked").count() == 0
    node.hover()
    mine = [n for n, step in enumerate(steps) if step.op == number]
    assert mine
    assert page.locator(".timeline .marked").count() == len(mine)
    made = [t for t in profiled[1].memory.stages[0].temporaries if {*t.writes} & {*mine}]
    assert page.locator(".timeline .block.made").count() == len(made)
    node.click()
    page.mouse.move(20, 300)
    assert page.locator(".timeline .marked").count() == len(mine)  # it stays open
    page.keyboard.press("Escape")
    assert page.locator(".timeline .marked").count() == 0
    watched.check_silence()


def test_keys_go_through_the_steps(page, watched, profiled):
    steps = profiled[1].memory.steps
    page.locator(".timeline").focus()
    page.keyboard.press("End")
    assert told(page).startswith(f"step {len(steps)} · {steps[-1].name}")
    page.keyboard.press("ArrowLeft")
    assert told(page).startswith(f"step {len(steps) - 1} · {steps[-2].name}")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert told(page).startswith(f"step 2 · {steps[1].name}")
    page.keyboard.press("Enter")
    kind = next(op.kind for op in blocks().ops if op.id == steps[1].op)
    playwright.expect(page.locator("#panel h2")).to_have_text(kind)
    watched.check_silence()


def test_weights_stand_under_the_arena_when_asked(page, watched, profiled):
    told_of = profiled[1].memory
    assert page.locator(".timeline .band").count() == 0
    page.get_by_role("button", name="Weights").click()
    height = float(page.locator(".timeline .constants").get_attribute("height"))
    arena = float(page.locator(".timeline .arena").get_attribute("height"))
    assert height / arena == pytest.approx(told_of.constant_bytes / told_of.arena_bytes, rel=0.02)
    assert page.locator(".timeline .prepared").count() == bool(told_of.prepared_bytes)
    page.get_by_role("button", name="Memory").click()
    playwright.expect(page.locator("#memory")).to_be_hidden()
    watched.check_silence()


def test_a_temporary_says_who_reads_it(page, watched, profiled):
    (stage,) = profiled[1].memory.stages
    one = next(t for t in stage.temporaries if t.nbytes == max(u.nbytes for u in stage.temporaries))
    down = 16 + 132 * (1 - (one.offset + one.nbytes / 2) / stage.arena_bytes)
    page.mouse.move(*column(page, one.last, len(stage.steps), down))
    readers = ", ".join(str(number + 1) for number in one.reads)
    assert told(page).endswith(
        f"— {one.name} {one.text}, {size(one.nbytes)}, steps {one.first + 1} to {one.last + 1}, read by {readers}"
    )
    watched.check_silence()


def test_what_numpy_runs_is_not_planned(watched, tmp_path):
    model = blocks().compile(backend="numpy")
    with og.profile() as prof:
        model(np.ones((1, 16, 16, 16), np.float32))
    model.to_html(tmp_path / "model.html", profile=prof)
    page = watched.show(tmp_path / "model.html")
    assert page.locator(".timeline .size").all_text_contents()[0] == "0"
    assert "numpy takes memory as it goes" in page.locator("#memory .sums").inner_text()
    assert page.locator(".timeline .block").count() == 0
    page.mouse.move(*column(page, 1, len(prof.memory.steps)))
    assert "SoftMax body.0.shares · memory is not planned" in told(page)
    watched.check_silence()


def test_a_graph_without_a_profile_has_no_chart(watched, tmp_path):
    blocks().to_html(tmp_path / "graph.html")
    page = watched.show(tmp_path / "graph.html")
    playwright.expect(page.locator("#memory")).to_be_hidden()
    playwright.expect(page.locator("#memory-toggle")).to_be_hidden()
    watched.check_silence()


def test_the_flame_chart_has_the_memory_below(watched, profiled, tmp_path):
    _, prof = profiled
    prof.to_html(tmp_path / "flames.html")
    page = watched.show(tmp_path / "flames.html")
    steps = prof.memory.steps
    assert page.locator(".timeline .block").count() == len(prof.memory.stages[0].temporaries)
    page.mouse.click(*column(page, 0, len(steps)))
    name, _, implementation = steps[0].name.partition(" (")
    text = page.locator("#told").inner_text()
    assert text.startswith(name)
    assert implementation.rstrip(")") in text
    page.locator("#chart").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(".timeline .marked").count() > 0
    watched.check_silence()
