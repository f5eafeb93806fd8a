"""What the README and the other documents say, run."""

import re

import pytest
from conftest import ROOT
from documents import Page, blocks_of, with_needs

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = [block.text for block in blocks_of(README) if block.language == "python"]


@pytest.fixture
def page(monkeypatch, tmp_path):
    """The README's Python blocks, about to be run."""
    monkeypatch.setenv("ONEDNN_GRAPH_CACHE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    page = Page(ROOT / "README.md", tmp_path)
    page.blocks = [block for block in page.blocks if block.language == "python"]
    return page


@pytest.mark.parametrize("readme", [ROOT / "README.md"], ids=lambda path: with_needs(path, ROOT))
def test_python_blocks_run_in_order_and_show_their_errors(page, readme):
    assert len(page.blocks) == len(re.findall(r"^```python", readme.read_text(encoding="utf-8"), re.M))
    page.run()
    if page.left_out:
        pytest.skip(f"all other blocks passed, but {'; '.join(page.left_out)}, which is not installed")


def test_the_first_block_has_ten_lines():
    assert len([line for line in BLOCKS[0].splitlines() if line.strip()]) <= 10


def test_the_first_screen():
    """Picture, both commands and the first lines of Python come before anything else."""
    first = README.partition("\n## ")[0]
    for part in (
        "docs/pages/pictures/speed.png",
        "<!-- install command -->",
        "<!-- test command -->",
        "```python",
    ):
        assert part in first
    assert len(first.splitlines()) <= 45
    assert "mermaid" not in README  # which no package index draws


def test_it_is_short():
    assert len(README.splitlines()) <= 150


def test_links_and_pictures_are_there():
    targets = re.findall(r"\]\(([^)#]+)\)", README)
    missing = [t for t in targets if "://" not in t and not (ROOT / t).exists()]
    assert targets
    assert not missing


def test_ci_runs_the_readmes_test_command():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    command = re.search(r"<!-- test command -->\n```sh\n(.*?)\n```", README, re.S).group(1)
    assert command.endswith("-m pytest -n auto --cov=onednn_graph --cov-fail-under=95")
    assert "<!-- test command -->" in script  # taken from the README, not repeated


def test_a_newcomer_finds_the_notebooks():
    """Where one looks first: README, the first page of the documentation, and the first guide."""
    assert list((ROOT / "examples" / "notebooks").glob("*.ipynb"))
    for page in ("README.md", "docs/pages/index.md", "docs/pages/getting-started.md"):
        assert "examples/notebooks" in (ROOT / page).read_text(encoding="utf-8"), page
