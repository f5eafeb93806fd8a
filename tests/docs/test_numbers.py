"""Numbers in the prose of the documentation are those of the code; what was measured is `benchmarks/figures.py`'s."""

import re

import ml_dtypes
import numpy as np
import pytest
from conftest import ROOT

pytest.importorskip("typer", reason="the command line's numbers are among them; install the extra 'cli'")

from onednn_graph._renamed import REMOVED_IN
from onednn_graph.backends.onednn.threads import SMALL_GRADIENT_SECONDS, SMALL_SECONDS
from onednn_graph.backends.onednn.weight_gradients import online, tuning
from onednn_graph.graph.compile import trials
from onednn_graph.graph.compile.options import CompileOptions
from onednn_graph.graph.importing.translation import ROOM
from onednn_graph.graph.training.communication import LOST_AFTER, TIMEOUT
from onednn_graph.tools.console import PIPED
from onednn_graph.tools.machine import MOST_SECONDS

PAGES = ROOT / "docs" / "pages"
WORDS = {3: "three", 5: "five", 8: "eight", 10: "ten"}
OPTIONS = CompileOptions()
SAID = (
    (
        "guides/threads.md",
        f"what one core does in {SMALL_SECONDS * 1e6:.0f} µs, "
        f"a weight gradient in {SMALL_GRADIENT_SECONDS * 1e6:.0f} µs,",
    ),
    (
        "guides/weight-gradients.md",
        f"Up to {WORDS[online.MOST_TRIED]} candidates are tried, those whose estimate is within "
        f"{WORDS[tuning.PLAUSIBLE]} times the best one's, where that is {online.LEAST_SECONDS * 1e3:g} ms at least. "
        f"Each has one execution that is not timed and {WORDS[trials.ROUNDS]} that are",
    ),
    (
        "guides/weight-gradients.md",
        f"what is more than {trials.CLEARLY_SLOWER} times slower is dropped after {WORDS[trials.LEAST_ROUNDS]}, "
        f"and where times vary because the machine does other things there are up to {WORDS[trials.MOST_ROUNDS]}.",
    ),
    (
        "guides/weight-gradients.md",
        f"by `tune_seconds` ({OPTIONS.tune_seconds} by default) "
        f"or by the time of {WORDS[trials.BUDGET_RUNS]} executions",
    ),
    ("guides/models-and-memory.md", f"The {OPTIONS.kept_shapes} sets of sizes that were used last are kept"),
    ("help/troubleshooting.md", f"keeps the programs of the {OPTIONS.kept_shapes} sets of input shapes"),
    ("guides/from-onnx.md", f"A constant may take {ROOM / 2**30:g} GiB"),
    ("guides/distributed.md", f"| `timeout={TIMEOUT:g}` |"),
    ("guides/distributed.md", f"| `lost_after={LOST_AFTER:g}` |"),
    ("guides/distributed.md", f"after {LOST_AFTER:g} s without a sign (`lost_after`)"),
    ("guides/command-line.md", f"In a pipe they take {PIPED} columns"),
    ("guides/command-line.md", f"{WORDS[MOST_SECONDS / 60]} minutes at most"),
    ("coming-from/names.md", f"They work until {REMOVED_IN}, with a `DeprecationWarning`"),
)
"""Pages, and what they say with the numbers of today."""


def text_of(page):
    return (PAGES / page).read_text(encoding="utf-8")


@pytest.mark.parametrize(("page", "said"), SAID)
def test_the_page_has_the_number_of_the_code(page, said):
    assert said in " ".join(text_of(page).split())


SPEED = re.compile(
    r"\babout an? (?:milli|micro|nano)second\b|\b\d[\d.,]*\s?(?:[µmn]s|GF/s|GFLOP/s|GB/s|times as (?:fast|long))\b"
)
"""What a machine takes, or does in a time."""


@pytest.mark.parametrize("path", sorted(PAGES.rglob("*.md")), ids=lambda path: path.stem)
def test_no_time_is_typed(path):
    """Those that commands fill in are between marks, those of the code in `SAID`, and outputs in blocks."""
    text = path.read_text(encoding="utf-8")
    for left_out in (r"^```.*?^```", r"<!-- figure: .*?<!-- end of figure -->", r"`[^`\n]*`"):
        text = re.sub(left_out, "", text, flags=re.M | re.S)
    prose = " ".join(text.split())
    for page, said in SAID:
        if page == path.relative_to(PAGES).as_posix():
            prose = prose.replace(said, "")
    assert SPEED.findall(prose) == []


@pytest.mark.parametrize("text", ["about a microsecond", "in 3.5 ms", "20 µs", "4 GF/s", "2 times as fast"])
def test_a_typed_time_is_seen(text):
    assert SPEED.search(text)


def test_torch_steps_of_attention():
    pytest.importorskip("torch", reason="the table of torch.compile needs torch")
    from onednn_graph.graph.torch_compile.plan import table

    assert table.MOST_SCORES == 4 << 20
    assert (
        f"fewer than {table.FEWEST_QUERIES} positions ask, and where there are more than four million scores"
        in (text_of("coming-from/torch.md").replace("\n", " "))
    )


def test_moments_of_adapters_are_of_their_numbers():
    text = text_of("guides/adapters.md")
    whole, few = map(int, re.search(r"^(\d+) (\d+)$", text, re.M).groups())
    moments = [count * 2 * 4 >> 10 for count in (few, whole)]
    assert f"here {moments[0]} KB instead of {moments[1]}" in text.replace("\n", " ")


def test_examples_are_as_short_as_is_said():
    assert "is a CNN on handwritten digits in under 40 lines" in text_of("guides/training.md")
    assert len((ROOT / "examples" / "train_digits.py").read_text(encoding="utf-8").splitlines()) < 40
    for page, most in (("extending/in-300-lines.md", 300), ("guides/data-to-served-model.md", 120)):
        blocks = re.findall(r"```python\n(.*?)```", text_of(page), re.S)
        assert sum(len(block.strip().splitlines()) for block in blocks) <= most


def test_errors_of_halves():
    """The row of the product: f16 in f32, and by way of bf16."""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((512, 1024)).astype("f2"), rng.standard_normal((1024, 512)).astype("f2")
    exact = a.astype("f8") @ b.astype("f8")
    bf16 = ml_dtypes.bfloat16
    wide = (a.astype("f4") @ b.astype("f4")).astype("f2")
    narrow = (a.astype(bf16).astype("f4") @ b.astype(bf16).astype("f4")).astype("f2")
    norms = [np.linalg.norm(one - exact) / np.linalg.norm(exact) for one in (wide, narrow)]
    places = [
        np.median(np.abs(one - exact) / np.spacing(np.abs(exact).astype("f2"))) for one in (wide, narrow)
    ]
    text = text_of("guides/weight-gradients.md").replace("e-0", "e-")
    told = " | ".join(f"{norm:.1e}".replace("e-0", "e-") for norm in norms)
    assert f"| product, 512×1024×512 | {told} |" in text
    assert f"| an element in the median, in its own last places | {places[0]:.2g} | {places[1]:.1f} |" in text
