"""The package as a whole: what is listed, generated and shipped. `lint-imports` holds the layers."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import onednn_graph as og
import pytest
from conftest import PROJECT, ROOT
from onednn_graph._renamed import FORMER_FUNCTIONS, RENAMED
from onednn_graph.backends.numpy.kernels import KERNELS
from onednn_graph.graph.functions import generate, op_functions
from onednn_graph.tools import op_table, precision_table
from onednn_graph.tools.generate import main as write_all
from rows import each

PACKAGE = Path(og.__file__).parent
LAYERS = ["ops", "graph", "backends", "tools"]
FACADE = ROOT / "graph" / "_facade"
"""`onednn_graph/__init__.py`, which stands above all layers."""
MOST_BYTES = 1_880_000
"""Of a wheel, of which code without a word of documentation is about a megabyte."""
SOURCES = [
    file for layer in LAYERS for file in sorted((ROOT / layer).rglob("*.py")) if FACADE not in file.parents
]


@each("file", SOURCES, ids=lambda file: str(file.relative_to(ROOT)))
def test_modules_are_documented(file):
    text = file.read_text(encoding="utf-8")
    if text.strip():
        assert ast.get_docstring(ast.parse(text))


def test_every_package_is_listed():
    """setuptools takes only what pyproject.toml lists."""
    listed = set(PROJECT["tool"]["setuptools"]["packages"])
    inits = [init.parent for layer in LAYERS for init in (ROOT / layer).rglob("__init__.py")]
    folders = {".".join(("onednn_graph", *folder.relative_to(ROOT).parts)) for folder in inits}
    facade = "onednn_graph.graph._facade"
    folders = {name.replace(facade, "onednn_graph") if facade in name else name for name in folders}
    assert listed == folders
    without = {
        folder
        for layer in LAYERS
        for folder in [ROOT / layer, *(ROOT / layer).rglob("*")]
        if folder.is_dir() and list(folder.glob("*.py")) and not (folder / "__init__.py").exists()
    }
    assert not without


def test_types_are_shipped():
    assert (PACKAGE / "py.typed").exists()
    graph = Path(generate.__file__).parent.parent
    for name in ("functions/op_functions", "core/op_methods"):
        assert (graph / f"{name}.py").exists()
        assert (graph / f"{name}.pyi").exists()


def test_generated_files_are_of_today(tmp_path):
    """`python -m onednn_graph.tools.generate .` would change nothing."""
    for folder in ("core", "functions"):
        (tmp_path / "graph" / folder).mkdir(parents=True)
    for maker in (op_table, precision_table):
        before, table, after = (ROOT / maker.PAGE).read_text(encoding="utf-8").partition(maker.BEGIN)
        (tmp_path / maker.PAGE).parent.mkdir(parents=True)
        (tmp_path / maker.PAGE).write_text(
            before + table + after[after.index(maker.END) :], encoding="utf-8"
        )  # without its rows
    write_all(tmp_path)
    made_pages = (op_table.PAGE, precision_table.PAGE)
    for name in ("graph/functions/op_functions.pyi", "graph/core/op_methods.pyi", *made_pages):
        made, kept = ((root / name).read_text(encoding="utf-8") for root in (tmp_path, ROOT))
        assert made == kept, f"{name} is out of date; run python -m onednn_graph.tools.generate ."


def test_every_op_has_a_kernel_and_an_overload():
    stub = generate.methods()
    for schema in og.list_ops():
        assert schema.kind in KERNELS
        for name in (schema.kind, *(alias.kind for alias in schema.aliases)):
            assert f'Literal["{name}"]' in stub


def test_the_facade_exports_what_it_names():
    for module in (og, og.errors, og.extend, og.profiling, og.training):
        for name in module.__all__:
            assert getattr(module, name) is not None
    public = {name for name in vars(og) if not name.startswith("_")}
    modules = {"backends", "graph", "ops", "tools", "torch", "onnx_backend"}
    assert public - modules - set(og.__all__) == set()
    assert len(set(og.__all__) - set(op_functions.__all__)) <= 43, (
        "one more name at the top pushes another out of sight"
    )


def test_the_facade_hides_no_module():
    script = (
        "import onednn_graph.ops.registry as registry, onednn_graph.backends.numpy.kernels as kernels\n"
        "import onednn_graph.errors, onednn_graph.extend, onednn_graph.profiling, onednn_graph.training as training\n"
        "print(registry.REGISTRY.resolve('ReLU')[0].kind, 'ReLU' in kernels.KERNELS, training.Adam.__name__)"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert told == "ReLU True Adam\n"


@pytest.mark.parametrize("name", RENAMED)
def test_former_names_say_what_they_are_called_now(name):
    assert name not in og.__all__
    place, _, own = RENAMED[name].rpartition(".")
    module = getattr(og, place) if place else og
    assert own in module.__all__
    with pytest.warns(
        DeprecationWarning, match=rf"onednn_graph\.{name} is .* use onednn_graph\.{RENAMED[name]}$"
    ) as told:
        assert getattr(og, name) is getattr(module, own)
    assert {one.filename for one in told} == {__file__}


@pytest.mark.parametrize("name", FORMER_FUNCTIONS)
def test_subpackages_are_called_as_the_functions_that_had_their_names(name):
    new = FORMER_FUNCTIONS[name]
    with pytest.warns(
        DeprecationWarning, match=rf"onednn_graph\.{name}\(\) is .* use onednn_graph\.{new}\(\)$"
    ) as told:
        assert getattr(og, name)() == getattr(og, new)()
    assert told[0].filename == __file__


def test_public_things_are_documented():
    for module in (og, og.errors, og.extend, og.profiling, og.training):
        assert module.__doc__
        for name in module.__all__:
            thing = getattr(module, name)
            if callable(thing) and getattr(thing, "__module__", "").startswith("onednn_graph"):
                assert thing.__doc__, name


def test_versions_agree():
    """Pyproject.toml has it; the package asks its installation, so install the checkout again where this fails."""
    released = PROJECT["project"]["version"]
    assert released == og.__version__
    assert f"\nversion: {released}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## \[(.+?)\](?: - (\d{4}-\d\d-\d\d))?$", changes, re.M)
    assert versions[0] == ("Unreleased", "")
    assert versions[1][0] == released
    assert all(date for _, date in versions[1:])


def built(checkout, out, kind="wheel"):
    """Builds a wheel, or a source distribution, as pip would."""
    script = f"import sys, build_backend as b; to = sys.argv[1]; b.get_requires_for_build_{kind}(); b.build_{kind}(to)"
    out.mkdir(exist_ok=True)
    subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", script, str(out)],
        cwd=checkout,
        env={name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
        | {
            "PYTHONPATH": os.pathsep.join([".ci", os.environ.get("PYTHONPATH", "")]),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        check=True,
    )
    (file,) = out.iterdir()
    return file


def copied(to):
    """The checkout without what was made in it."""
    ignored = shutil.ignore_patterns(".git", ".venv*", "__pycache__", "site", ".results", "*.egg-info")
    return shutil.copytree(ROOT, to, ignore=ignored)


def test_a_build_leaves_nothing_in_the_checkout_and_takes_nothing_from_it(tmp_path):
    """A module that is no longer there was installed from `build/` again."""
    pytest.importorskip("setuptools", minversion="77", reason="setuptools 77 or later is not installed here")
    checkout = tmp_path / "checkout"
    for name in (".ci", "backends", "graph", "ops", "tools"):
        shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    (checkout / "docs").mkdir()
    for name in ("pyproject.toml", PROJECT["project"]["readme"], "LICENSE"):
        shutil.copy(ROOT / name, checkout / name)
    before = sorted(p.name for p in checkout.iterdir())
    stale = checkout / "build" / "lib" / "onednn_graph" / "tools" / "stale.py"
    stale.parent.mkdir(parents=True)
    stale.write_text("")
    wheel = built(checkout, tmp_path / "out")
    shutil.rmtree(checkout / "build")
    assert sorted(p.name for p in checkout.iterdir()) == before
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert "onednn_graph/tools/stale.py" not in names
    packed = {name for name in names if name.endswith((".py", ".pyi", ".typed", ".js", ".html", ".css"))}
    kept = {
        str(file.relative_to(ROOT))
        for layer in LAYERS
        for file in (ROOT / layer).rglob("*")
        if file.suffix in (".py", ".pyi", ".typed", ".js", ".html", ".css")
    }
    mapped = {name.removeprefix("graph/_facade/") for name in kept}
    assert {name.removeprefix("onednn_graph/") for name in packed} == {*mapped, *({"py.typed"} & mapped)}


def test_two_builds_are_the_same(tmp_path):
    """From a repository and from the source distribution, by a release and by whoever checks it, at any time.

    The repository's files are written anew in other years, with other modes, and its commit has a time of its own.
    """
    pytest.importorskip("setuptools", minversion="77", reason="setuptools 77 or later is not installed here")
    checkout = copied(tmp_path / "checkout")
    packed = built(checkout, tmp_path / "sdist", "sdist")
    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    for number, folder in enumerate((checkout, unpacked)):
        for file in folder.rglob("*"):
            os.utime(file, (1e9 + 1e8 * number, 1e9 + 1e8 * number))
            file.chmod(file.stat().st_mode | 0o020 if number else file.stat().st_mode & 0o700)
    if shutil.which("git"):
        person = ["-c", "user.name=x", "-c", "user.email=x@x"]
        for arguments in (["init", "-q"], ["add", "-A"], [*person, "commit", "-q", "-m", "x"]):
            subprocess.run(["git", *arguments], cwd=checkout, check=True)
    here, there = (
        built(folder, tmp_path / name).read_bytes() for folder, name in ((checkout, "a"), (unpacked, "b"))
    )
    assert here == there
    assert len(here) < MOST_BYTES, "what made it larger, and has to be in everybody's?"


def test_the_source_distribution_takes_every_kind_of_file():
    """`.ci/run` builds it and compares; here a file of a new kind is seen at once."""
    patterns = (ROOT / "MANIFEST.in").read_text(encoding="utf-8")
    for folder in ("benchmarks", "examples", "tests"):
        told = re.search(rf"^recursive-include {folder} (.+)$", patterns, re.M)
        files = [file for file in (ROOT / folder).rglob("*") if file.is_file() and file.suffix != ".pyc"]
        assert {f"*{file.suffix}" for file in files if file.suffix} == set(told[1].split())
        for file in files:
            assert file.suffix or f"include {file.relative_to(ROOT).as_posix()}\n" in patterns


def test_the_facade_runs_under_its_own_name_only():
    """A second copy of it would register its backends twice, and have classes of its own."""
    script = (
        "import onednn_graph as og\n"
        "try: __import__('onednn_graph.graph._facade')\n"
        "except ImportError as error: print(error)\n"
        "import sys; print([n for n in sys.modules if '_facade' in n], list(og.list_backends()))"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    # A wheel does not have it; a checkout says what to import instead.
    assert told.startswith(
        ("No module named 'onednn_graph.graph._facade'\n", "onednn_graph.graph._facade is where the sources")
    )
    assert told.endswith("[] ['onednn', 'numpy', 'native']\n")


def test_importing_loads_no_more_than_it_needs():
    """The library is found at first use, and no heavy or optional package comes in."""
    script = "import sys, onednn_graph; print(*sorted(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "onednn_graph" in loaded
    for name in ("torch", "matplotlib", "sklearn", "pandas", "pytest", "scipy", "networkx", "onnx"):
        assert name not in loaded


def test_importing_leaves_to_later_what_few_need():
    """Modules of the standard library that take as long as a hundred lines of ours, beyond what others bring."""
    script = (
        "import sys, attrs, ml_dtypes, numpy, platformdirs; others = {*sys.modules}; import onednn_graph\n"
        "print(*sorted({*sys.modules} - others))"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert not {"difflib", "hashlib", "multiprocessing", "shutil", "tempfile", "zipfile"} & {*loaded.split()}


def test_the_core_stays_small():
    names = [re.split(r"[><=;\s]", dependency)[0] for dependency in PROJECT["project"]["dependencies"]]
    assert names == ["attrs", "ml_dtypes", "numpy", "onednn-cpu-gomp", "platformdirs"]


def test_the_recipe_for_conda_is_of_this_version():
    """It asks for what the package needs, and for what the command line needs; oneDNN comes from there."""
    recipe = (ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    assert f'version: "{PROJECT["project"]["version"]}"' in recipe
    lines = re.search(r"  run:\n((?:    - .*\n)+)", recipe)[1].splitlines()
    asked = [line.partition(" #")[0].replace("    - ", "").replace(" ", "") for line in lines]
    needed = [*PROJECT["project"]["dependencies"], *PROJECT["project"]["optional-dependencies"]["cli"]]
    wanted = {one for one in needed if not one.startswith("onednn-cpu-gomp")}
    assert set(asked) == {*wanted, f"python{PROJECT['project']['requires-python']}", "onednn>=3.2,<4*omp*"}


@pytest.mark.skipif(os.name != "posix", reason="these are scripts of sh")
@pytest.mark.parametrize("there", [True, False])
def test_an_environment_of_conda_names_a_library_that_is_there(there, tmp_path):
    """And leaves alone what the user has named instead."""
    recipe = (ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    scripts = dict(
        reversed(found) for found in re.findall(r"- echo '(.*)' > \"\$PREFIX/etc/conda/(\w+)\.d/", recipe)
    )
    library = tmp_path / "lib" / "libdnnl.so.3"
    library.parent.mkdir()
    if there:
        library.touch()

    def told(*words, **given):
        script = "\n".join(
            [*(scripts.get(word, word) for word in words), 'echo "${ONEDNN_GRAPH_LIBRARY-none}"']
        )
        done = subprocess.run(
            ["sh", "-ec", script],
            env={"PATH": os.environ["PATH"], "CONDA_PREFIX": str(tmp_path), **given},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    assert told("activate") == (str(library) if there else "none")
    assert told("activate", "deactivate") == "none"
    assert told("activate", "ONEDNN_GRAPH_LIBRARY=/mine", "deactivate") == "/mine"


def test_releases_are_tested_on_every_python_that_is_promised():
    release = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    promised = {
        one.rpartition(" ")[2] for one in PROJECT["project"]["classifiers"] if re.search(r":: 3\.\d+$", one)
    }
    listed = re.search(r"python: \[(.*)\]", release)[1]
    assert {one.strip(' "') for one in listed.split(",")} == promised
    oldest = re.search(r"numpy>=([\d.]+)", " ".join(PROJECT["project"]["dependencies"]))[1]
    assert f"numpy=={oldest}.*" in release
