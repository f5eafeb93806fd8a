"""`benchmarks/all` renews what tools have written in RESULTS.md, and nothing else."""

import re
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st

PAGE = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")


def loaded():
    loader = SourceFileLoader("renewing", str(ROOT / "benchmarks" / "all"))
    spec = spec_from_loader("renewing", loader)
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


tool = loaded()
TITLES = [part.title for part in tool.PARTS]
BLOCK = re.compile(f"{tool.BEGIN.format('(.*)')}\n\n((?s:.*?))\n\n{tool.END}\n")


def by_hand(text):
    """The lines that no tool has written; empty ones do not count."""
    return [line for line in BLOCK.sub("", text).splitlines() if line]


def made_of(text):
    return {name: content for name, content in BLOCK.findall(text) if name != tool.STAMP}


def test_every_part_has_its_place_in_the_page():
    assert list(made_of(PAGE)) == TITLES
    for content in made_of(PAGE).values():
        assert content.startswith("`python benchmarks/")
    assert "|---|" not in "\n".join(by_hand(PAGE))  # tables are the tools'


@pytest.mark.parametrize("titles", [TITLES, TITLES[2:4], TITLES[-1:], []], ids=len)
def test_what_is_written_by_hand_stays(titles):
    made = {title: f"`python benchmarks/x.py`\n\n| {title} |\n|---|\n| new |" for title in titles}
    renewed = tool.page(PAGE, made, "today")
    assert by_hand(renewed) == by_hand(PAGE)
    assert made_of(renewed) == {**made_of(PAGE), **made}
    assert tool.page(renewed, made, "today") == renewed
    assert renewed.count("today") == 1
    assert renewed.startswith("# Results of `wgrad.py`\n")


TEXT = st.lists(
    st.sampled_from(
        ["", "words", "| a | table |", "`python benchmarks/x.py`", "# one", "```", "### three", "    code"]
    )
).map("\n".join)
HANDS = st.tuples(TEXT, TEXT, TEXT, TEXT)


@given(HANDS, st.lists(st.sampled_from("AB"), unique=True), st.booleans())
def test_wherever_words_stand(words, titles, marked):
    """Before a part's tables, behind them, and where there are no marks yet."""
    words = [one if one.count("```") % 2 == 0 else f"{one}\n```" for one in words]
    block = f"{tool.BEGIN.format('A')}\n\nold\n\n{tool.END}\n" if marked else ""
    old = f"# Title\n{words[0]}\n\n## A\n\n{words[1]}\n\n{block}\n{words[2]}\n\n## C\n\n{words[3]}\n"
    made = dict.fromkeys(titles, "new")
    renewed = tool.page(old, made, "today")
    assert [line for line in by_hand(renewed) if line != "## B"] == by_hand(old)
    assert made_of(renewed) == ({"A": "old"} if marked else {}) | made
    assert ("## B" in renewed) == ("B" in titles)
    if "A" in titles:
        assert renewed.index("\nnew\n") < renewed.index("\n## C\n")
    assert tool.page(renewed, made, "today") == renewed


def test_a_heading_in_a_block_of_code_is_none():
    old = "# Title\n\n## A\n\n```text\n## not a heading\n```\n\n## C\n"
    assert tool.page(old, {"A": "new"}, "x").endswith(
        f"```\n\n{tool.BEGIN.format('A')}\n\nnew\n\n{tool.END}\n\n## C\n"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{begin}\n\n{end}\n\n{begin}\n\n{end}\n", "2 times"),
        ("{begin}\n\nwords\n", "without"),
        ("{begin}\n\nwords\n\n{other}\n\nmore\n\n{end}\n", "without"),
    ],
)
def test_marks_that_are_broken_are_an_error(text, message):
    text = text.format(begin=tool.BEGIN.format("A"), other=tool.BEGIN.format("B"), end=tool.END)
    with pytest.raises(ValueError, match=message):
        tool.page(f"# T\n\n## A\n\n{text}", {"A": "new"}, "x")


def test_the_command_that_is_shown_is_the_one_that_was_run():
    """With the options that the tool leaves out, and without the place of the user's file."""
    part = next(one for one in tool.PARTS if "{shapes}" in one.arguments and "--backend" in one.arguments)
    written = "## 2 threads\n\n`python benchmarks/wgrad.py --seed 2026`\n\ncpu X.\n\n| a |\n|---|\n"
    shown, _, *rest = tool.content(part, written, Path("/home/me/shapes.json")).splitlines()
    assert shown.startswith("`python benchmarks/wgrad.py ")
    assert "--backend numpy" in shown
    assert shown.endswith("--shapes shapes.json`")
    assert rest == ["cpu X.", "", "| a |", "|---|"]
    assert "--shapes" not in tool.content(part, written, None)


def test_a_page_is_renewed_after_each_part(tmp_path, monkeypatch, capsys):
    """By its own tool, and where it stopped it goes on."""
    ran = []

    def run(part, shapes, folder):
        ran.append(part.title)
        if len(ran) == 3:
            raise KeyboardInterrupt
        (folder / f"{part.name}.md").write_text(f"| {part.title} |\n")

    monkeypatch.setattr(tool, "run", run)
    monkeypatch.setattr(tool, "stamped", lambda parts: "today")
    page = tmp_path / "PAGE.md"
    page.write_text("# Title\n\nby hand\n")
    monkeypatch.setattr("sys.argv", ["all", "--page", str(page), "--folder", str(tmp_path / "made")])
    with pytest.raises(KeyboardInterrupt):
        tool.main()
    assert list(made_of(page.read_text())) == TITLES[:2]
    tool.main()
    assert list(made_of(page.read_text())) == TITLES
    assert ran == [*TITLES[:3], *TITLES[2:]]
    assert [line for line in by_hand(page.read_text()) if not line.startswith("## ")] == [
        "# Title",
        "by hand",
    ]
    assert "see whether it still holds" in capsys.readouterr().out
