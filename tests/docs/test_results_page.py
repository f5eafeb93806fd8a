"""`benchmarks/all` renews a machine's page of results, and `benchmarks/figures.py` what documents say of all pages."""

import math
import re
import shutil
import sys
from importlib.machinery import SourceFileLoader
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest
from conftest import PROJECT, ROOT
from documents import blocks_of
from hypothesis import given
from hypothesis import strategies as st

sys.path.append(str(ROOT / "benchmarks"))
import chart
import figures
import machines
import result_pages


def loaded():
    loader = SourceFileLoader("renewing", str(ROOT / "benchmarks" / "all"))
    spec = spec_from_loader("renewing", loader)
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


tool = loaded()
TITLES = [part.title for part in tool.PARTS]
PAGES = sorted(machines.PAGES.glob("*.md"))


@pytest.mark.parametrize("file", PAGES, ids=lambda file: file.stem)
def test_a_page_is_what_the_tool_writes(file):
    """Nothing in it is written by hand."""
    text = file.read_text(encoding="utf-8")
    name = text.splitlines()[0].removeprefix("# Results on ")
    assert machines.page_of(name) == file
    assert tool.page(name, text, {}) == text
    there = list(tool.sections(text))
    assert there == [title for title in TITLES if title in there]
    assert there
    if file in [machine.file for machine in result_pages.whole_machines()]:
        assert all(part.title in there for part in tool.PARTS if not part.young)
    for content in tool.sections(text).values():
        assert content.startswith("`python benchmarks/")
        assert "nan" not in content


@pytest.mark.parametrize(
    ("shown", "name", "saturates"),
    [
        ("avx2 avx512f avx512_vnni", "AMD Zen 4", False),
        ("avx2 avx_vnni", "AMD Zen 4 with AVX2 alone", False),
        ("avx2", "AMD Zen 4 with AVX2 alone", True),
    ],
)
def test_a_machine_that_hides_instructions_has_a_page_of_its_own(tmp_path, shown, name, saturates):
    file = tmp_path / "cpuinfo"
    file.write_text(f"vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nflags\t\t: {shown}\n")
    assert machines.kind(file) == name
    assert machines.sums_saturate(file) == saturates


def test_of_a_machine_without_such_a_file_nothing_is_said(tmp_path):
    assert not machines.sums_saturate(tmp_path / "none")


@pytest.mark.parametrize("titles", [TITLES, TITLES[2:4], TITLES[-1:], []], ids=len)
def test_parts_that_were_not_made_stay(titles):
    text = PAGES[0].read_text(encoding="utf-8")
    made = {title: f"`python benchmarks/x.py`\n\n| {title} |\n|---|\n| new |" for title in titles}
    renewed = tool.page("X", text, made)
    assert tool.sections(renewed) == tool.sections(text) | made
    assert tool.page("X", renewed, made) == renewed


@given(st.permutations(TITLES), st.integers(0, len(TITLES)))
def test_parts_come_in_one_order(titles, number):
    made = {title: f"`{title}`\n\n```text\n## no heading\n```" for title in titles[:number]}
    assert tool.sections(tool.page("X", "", made)) == made
    assert list(tool.sections(tool.page("X", "", made))) == [t for t in TITLES if t in made]


def test_the_command_that_is_shown_is_the_one_that_was_run():
    """With the options that the tool leaves out, and without the place of the user's file."""
    part = next(one for one in tool.PARTS if "{shapes}" in one.arguments and "--backend" in one.arguments)
    written = "## 2 threads\n\n`python benchmarks/wgrad.py --seed 2026`\n\ncpu X.\n\n| a |\n|---|\n"
    shown, _, *rest = tool.content(part, written, {"shapes": Path("/home/me/shapes.json")}).splitlines()
    assert shown.startswith("`python benchmarks/wgrad.py ")
    assert "--backend numpy" in shown
    assert shown.endswith("--shapes shapes.json`")
    assert rest == ["cpu X.", "", "| a |", "|---|"]
    assert "--shapes" not in tool.content(part, written, {"shapes": None})


def test_a_page_is_renewed_after_each_part(tmp_path, monkeypatch):
    """By its own tool, and where it stopped it goes on; the figures come at the end."""
    ran, filled = [], []

    def run(part, given, folder):
        ran.append(part.title)
        if len(ran) == 3:
            raise KeyboardInterrupt
        (folder / f"{part.name}.md").write_text(f"cpu X.\n\n| {part.title} |\n")

    monkeypatch.setattr(tool, "run", run)
    monkeypatch.setattr(tool.figures, "main", filled.append)
    page = tmp_path / "results" / "page.md"
    library = ["--library", str(tmp_path / "libdnnl.so")]
    monkeypatch.setattr(
        "sys.argv", ["all", "--page", str(page), "--folder", str(tmp_path / "made"), *library]
    )
    with pytest.raises(KeyboardInterrupt):
        tool.main()
    assert list(tool.sections(page.read_text())) == TITLES[:2]
    assert not filled
    tool.main()
    assert list(tool.sections(page.read_text())) == TITLES
    assert ran == [*TITLES[:3], *TITLES[2:]]
    assert filled == [[]]


def test_parts_of_another_library_need_one(tmp_path, monkeypatch, capsys):
    arguments = ["all", "--list", "--folder", str(tmp_path / "made"), "--only", "builds"]
    monkeypatch.setattr("sys.argv", arguments)
    tool.main()
    assert not capsys.readouterr().out
    monkeypatch.setattr("sys.argv", [*arguments, "--library", "/opt/onednn/libdnnl.so"])
    tool.main()
    shown = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in shown] == [
        result_pages.BUILDS_OF_GRADIENTS, result_pages.BUILDS_OF_MODELS,
    ]  # fmt: skip
    assert all(line.endswith("--library /opt/onednn/libdnnl.so") for line in shown)


def test_builds_are_compared_by_type():
    gradients = (
        "| layer | format | dtype | ms of oneDNN 3.2.0 | oneDNN 3.13.1 ÷ oneDNN 3.2.0 |\n|---|---|---|---|---|\n"
        "| a | NXC | f32 | 2.0 | 0.50 |\n| b | NXC | f32 | 1.0 | 2.00 |\n| a | NXC | bf16 | 1.0 | 3.00 |\n"
    )
    models = (
        "| model | type | ours | ours, 3.13.1 |\n|---|---|---|---|\n"
        "| m | f32 | 2.00 (2.10) | 3.00 (3.10) |\n| n | f32 | 2.00 (2.10) |  |\n"
    )
    sections = {result_pages.BUILDS_OF_GRADIENTS: gradients, result_pages.BUILDS_OF_MODELS: models}
    machine = result_pages.Machine("X", Path("x.md"), sections)
    assert not list(result_pages.every(machine)), "ours on another build is no peer"
    found = list(result_pages.builds(machine))
    assert [one.line for one in found] == [
        (
            "weight gradients, f32",
            "oneDNN 3.13.1",
            "**1.00**",
            "0.50 (a NXC)",
            "2.00 (b NXC)",
            "2",
        ),
        (
            "weight gradients, bf16",
            "oneDNN 3.13.1",
            "**3.00**",
            "3.00 (a NXC)",
            "3.00 (a NXC)",
            "1",
        ),
        (
            "inference, f32",
            "oneDNN 3.13.1",
            "**1.50**",
            "1.50 (m)",
            "1.50 (m)",
            "1",
        ),
    ]


def test_tokens_of_language_models_are_compared_at_equal_bits():
    head = ("model", "weights", "engine", "decode, tokens/s")
    cells = [
        ("a", "f32", "ours", "6.0"),
        ("a", "f32", "eager", "2.0"),
        ("b", "f32", "ours", "8.0"),
        ("b", "f32", "eager", "4.0"),
        ("a", "s8", "ours", "3.0"),
        ("a", "s8", "llama_cpp", ""),  # left out there
        ("a", "s8", "openvino", "12.0"),
    ]
    lines = [f"| {' | '.join(row)} |" for row in (head, *cells)]
    lines.insert(1, "|---|---|---|---|")
    machine = result_pages.Machine("X", Path("x.md"), {tool.language_figures.TITLE: "\n".join(lines)})
    found = [(one.what[-3:], one.against, dict(one.values)) for one in result_pages.every(machine)]
    assert found == [("f32", "eager torch", {"a": 3, "b": 2}), (" s8", "OpenVINO", {"a": 0.25})]


# --- kinds of machine ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("vendor", "family", "model", "name", "expected"),
    [
        ("AuthenticAMD", 25, 17, "AMD EPYC", "AMD Zen 4"),
        ("AuthenticAMD", 25, 1, "AMD EPYC", "AMD Zen 3"),
        ("AuthenticAMD", 26, 2, "AMD EPYC", "AMD Zen 5"),
        ("GenuineIntel", 6, 143, "Intel Xeon Processor", "Intel Sapphire Rapids"),
        ("GenuineIntel", 6, 140, "11th Gen i7", "11th Gen i7"),
    ],
)
def test_kinds(vendor, family, model, name, expected, tmp_path):
    file = tmp_path / "cpuinfo"
    file.write_text(
        f"processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\nmodel name\t: {name}\n\n"
    )
    found = machines.kind(file)
    assert found == expected or (expected == name and found == machines.cpu_name())


# --- figures ---------------------------------------------------------------------------------------------


def installed():
    try:
        return bool(distribution(figures.WHEEL))
    except PackageNotFoundError:
        return False


@pytest.mark.parametrize("name", figures.DOCUMENTS)
def test_figures_are_todays(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    if "of the library -->" in text and not installed():
        pytest.skip(f"{name} says how large {figures.WHEEL} is, which is not installed here")
    assert figures.MARKS.search(text)
    assert figures.filled(text) == text, "run python benchmarks/figures.py"


@pytest.mark.parametrize("address", ["", "https://example.org/project/blob/main/"])
def test_the_switch_of_publishing(address, tmp_path, monkeypatch):
    """On a copy: the first command of README and installation page is pip's, and an index gets no relative link."""
    if not installed():
        pytest.skip(f"README says how large {figures.WHEEL} is, which is not installed here")
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    monkeypatch.setattr(figures, "PUBLISHED", True)
    monkeypatch.setattr(figures, "ADDRESS", address)
    pages = ("README.md", "docs/pages/installation.md")
    monkeypatch.setattr(figures, "DOCUMENTS", pages)
    monkeypatch.setattr(chart, "main", lambda: None)
    for name in (*pages, "docs/pages/guides/onnx-ops.md", "docs/pages/coming-from/torch-operators.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text(encoding="utf-8"), encoding="utf-8")
    assert figures.main([]) == 0
    for name in (*pages, figures.DESCRIPTION):
        text = (tmp_path / name).read_text(encoding="utf-8")
        blocks = blocks_of(text)
        assert blocks[0].text == "pip install onednn-graph\n", name
        assert name == figures.DESCRIPTION or "notest" in blocks[0].marks
        assert "on no package index" not in text
    assert len((tmp_path / "README.md").read_text(encoding="utf-8").splitlines()) <= 150
    shown = (tmp_path / figures.DESCRIPTION).read_text(encoding="utf-8")
    assert "<!--" not in shown
    targets = re.findall(r"\]\(([^)]+)\)", shown)
    assert bool(targets) == bool(address)
    assert all(target.startswith(address) for target in targets)
    for target in targets:
        assert (ROOT / target.removeprefix(address).partition("#")[0]).exists()
    assert figures.main(["--check"]) == 0


def test_the_index_shows_todays_readme():
    assert PROJECT["project"]["readme"] == figures.DESCRIPTION
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert (ROOT / figures.DESCRIPTION).read_text(encoding="utf-8") == figures.description(readme)


def test_no_mark_is_without_its_end():
    for name in figures.DOCUMENTS:
        text = (ROOT / name).read_text(encoding="utf-8")
        assert (
            text.count("<!-- figure: ")
            == text.count("<!-- end of figure -->")
            == len(figures.MARKS.findall(text))
        )


def test_every_figure_is_somewhere():
    said = "".join((ROOT / name).read_text(encoding="utf-8") for name in figures.DOCUMENTS)
    assert {name for _, name, _, _ in figures.MARKS.findall(said)} == set(figures.FIGURES)


def test_an_unknown_figure():
    with pytest.raises(ValueError, match="there is no figure 'speeed'"):
        figures.filled("<!-- figure: speeed --><!-- end of figure -->")


def test_an_old_figure_is_seen(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    monkeypatch.setattr(figures, "DOCUMENTS", ("A.md",))
    (tmp_path / "A.md").write_text("of <!-- figure: machines -->a 486<!-- end of figure -->.\n")
    assert figures.main(["--check"]) == 1
    assert capsys.readouterr().out == "A.md: old\n"
    assert "a 486" in (tmp_path / "A.md").read_text()


def test_means_are_of_the_rows():
    text = (
        "# Results on X\n\n## Training steps, two threads\n\n`python`\n\n"
        "| model | f32 | bf16 |\n|---|---|---|\n| a | 2.00 | 1.00 |\n| b | 0.50 |  |\n| c | 1.00 | 4.00 |\n"
    )
    parts = {"Training steps, two threads": text.split("threads\n", 1)[1]}
    machine = result_pages.Machine("X", Path("x.md"), parts)
    f32, bf16 = result_pages.training(machine)
    assert f32.line[2:] == ("**1.00**", "0.50 (b)", "2.00 (a)", "3")
    assert bf16.line[2:] == ("**2.00**", "1.00 (a)", "4.00 (c)", "2")


def test_means_of_two_pages_are_the_same():
    """A page's own summary is of ratios that were not rounded yet, and all else goes by it."""
    for machine in result_pages.machines():
        every = [*result_pages.every(machine), *result_pages.builds(machine)]
        told = {(ratios.what, ratios.against): ratios for ratios in every}
        assert len(told) == len(every)
        stated = [ratios for ratios in told.values() if ratios.stated]
        summaries = [row for title in machine.sections for row in machine.rows(title, "geometric mean")]
        beside_one = [
            f"{peer} ÷ ours" for peer in ("onnxruntime", "openvino", "torch channels_last", "torch")
        ]
        models = machine.rows(result_pages.MODELS, "geometric mean")
        summaries = [row for row in summaries if row not in models or row["ratio"] not in beside_one]
        in_summaries = sorted(row["geometric mean"] for row in summaries if "unfused" not in row["ratio"])
        tuned_elsewhere = [
            row["geometric mean"]
            for title in list(result_pages.GRADIENTS)[1:]
            for row in machine.rows(title, "geometric mean")
            if "tuned" in row["ratio"]
        ]
        assert sorted([*(ratios.stated for ratios in stated), *tuned_elsewhere]) == in_summaries
        for ratios in stated:
            assert (
                abs(math.prod(ratios.values.values()) ** (1 / len(ratios.values)) - float(ratios.mean)) < 0.02
            )
        assert all(ratios.line[2] == f"**{ratios.stated}**" for ratios in stated)


def test_readme_has_every_mean_below_1():
    """On any kind of machine, beside those of all others."""
    head, _, *rows = figures.speed().strip().splitlines()
    whole = result_pages.whole_machines()
    assert head == f"| their time ÷ ours | against | {' | '.join(machine.name for machine in whole)} |"
    cells = {tuple(row.strip("| ").split(" | ")[:2]): row.strip("| ").split(" | ")[2:] for row in rows}
    for place, machine in enumerate(whole):
        told = {(ratios.what, ratios.against): ratios for ratios in result_pages.every(machine)}
        assert {key for key, ratios in told.items() if float(ratios.mean) < 1} <= cells.keys()
        for key, ratios in told.items():
            assert (
                key not in cells
                or cells[key][place] == f"{ratios.line[2]}; {ratios.line[3]} to {ratios.line[4]}"
            )


def test_every_section_is_in_the_summary():
    for machine in result_pages.machines():
        for title in machine.sections:
            alone = result_pages.Machine(machine.name, machine.file, {title: machine.sections[title]})
            assert list(result_pages.every(alone)) or list(result_pages.builds(alone)), title


def test_a_table_says_what_it_is_of():
    """Or it is not taken; what was taken before is named."""
    part = next(one for one in tool.PARTS if one.arguments[0] == "torch_backend.py")
    with pytest.raises(ValueError, match="torch_backend.py must write a line that begins with 'cpu'"):
        tool.content(part, "# torch.compile\n\n| a |\n|---|\n", {})
    text = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    for machine in result_pages.machines():
        for title in machine.sections:
            link = f"[{title}](results/{machine.file.name})"
            assert (link in text) == (not machine.facts(title))


def test_the_chart_is_of_todays_results():
    found = result_pages.whole_machines()
    for machine in found:
        inference, training = chart.numbers(machine)
        assert [len(inference), len(training)] == [8, 7]
    assert chart.described(found).encode("latin-1") in chart.PICTURE.read_bytes(), (
        "run python benchmarks/figures.py"
    )


def test_a_machine_with_one_part_is_in_the_summary_alone(tmp_path, monkeypatch):
    whole = result_pages.whole_machines()
    assert whole
    for machine in result_pages.machines():
        shutil.copy(machine.file, tmp_path)
    head = "| model | weights | engine | decode, tokens/s |"
    rows = ["| a | f32 | ours | 6.0 |", "| a | f32 | eager | 2.0 |"]
    lines = ["cpu 486, isa sse41, date 2026-01-01.", "", head, "|---|---|---|---|", *rows]
    text = tool.page("A 486", "", {tool.language_figures.TITLE: "\n".join(lines)})
    (tmp_path / "a-486.md").write_text(text, encoding="utf-8")
    before = figures.speed()
    monkeypatch.setattr(result_pages, "PAGES", tmp_path)
    assert [machine.name for machine in result_pages.whole_machines()] == [machine.name for machine in whole]
    assert figures.speed() == before
    assert "A 486" not in figures.names()
    assert "**A 486**" in figures.summary()
    assert "| tokens of a language model, weights in f32 | eager torch | **3.00**" in figures.summary()
    assert "[A 486](results/a-486.md)" in figures.pages()
