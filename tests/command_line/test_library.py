"""`onednn-graph library`: builds of oneDNN that are found, shown, made the default and packed."""

import errno
import json
import os
import re
import shutil
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")

import onednn_graph as og
from cli_calls import call, wide_terminal  # noqa: F401 -- a fixture
from conftest import ROOT
from onednn_graph.backends.onednn.library import finding, remembered
from onednn_graph.backends.onednn.library.loading import load
from onednn_graph.tools.library import packing, probing
from processes import printed, run

LOADED = """
import json, onednn_graph as og
from onednn_graph.backends.onednn.library.loading import load
print(json.dumps([str(load().path), load().source, og.list_backends()["numpy"]]))
"""


@pytest.fixture(autouse=True)
def settings(monkeypatch, tmp_path):
    """Nothing is remembered, and nobody names a library."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    for name in ("ONEDNN_GRAPH_LIBRARY", "CONDA_PREFIX", "LD_LIBRARY_PATH"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def built(onednn, tmp_path):
    """A library of the user's own: the one that is loaded, in a folder with its licences above."""
    folder = tmp_path / "source" / "build" / "src"
    folder.mkdir(parents=True)
    for name in packing.LICENCES:
        (tmp_path / "source" / name).write_text(f"{name} of oneDNN")
    (folder / "libdnnl.so.3.2").symlink_to(load().path)
    try:
        os.link(load().path, folder / "libdnnl.so.3")  # never to be written to
    except OSError:  # on another disk
        shutil.copy(load().path, folder / "libdnnl.so.3")
    return folder / "libdnnl.so.3"


def version():
    return ".".join(map(str, load().version))


def listed():
    return json.loads(call("library", "list", "--json"))


def test_what_runs_is_listed_once(onednn):
    (used,) = [one for one in listed() if one["used"]]
    assert (used["path"], used["problem"]) == (str(finding.find_library().path), "")
    paths = [one["path"] for one in listed()]
    assert len({*paths}) == len(paths)
    assert "runs" in call("library", "list")


def test_a_build_is_found_where_conda_and_the_linker_have_it(built, monkeypatch, tmp_path):
    prefix = tmp_path / "conda"
    (prefix / "lib").mkdir(parents=True)
    (prefix / "lib" / "libdnnl.so.3").symlink_to(built)
    monkeypatch.setenv("CONDA_PREFIX", str(prefix))
    assert {one["path"]: one["named by"] for one in listed()}[str(built)] == "the environment of conda"
    monkeypatch.delenv("CONDA_PREFIX")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(built.parent))
    assert {one["path"]: one["named by"] for one in listed()}[str(built)] == "LD_LIBRARY_PATH"


def test_the_facts_of_a_build(built):
    told = json.loads(call("library", "info", built, "--json"))
    assert (told["path"], told["version"], told["threads"]) == (str(built), version(), load().runtime.name)
    assert not told["used"]
    assert {*told["has"], *told["lacks"]} >= {"oneDNN Graph", "group normalization"}
    assert json.loads(call("library", "info", "--json"))["used"]
    assert version() in call("library", "info")


def test_a_choice_is_remembered_until_it_is_undone(built):
    before = printed(LOADED)
    assert "is the default" in call("library", "use", built)
    assert printed(LOADED)[:2] == [str(built), "`onednn-graph library use`"]
    assert [one["path"] for one in listed() if one["used"]] == [str(built)]
    assert call("library", "use", "default").startswith("forgotten; ")
    assert printed(LOADED) == before
    assert call("library", "use", "default").startswith("there was no choice; ")


def test_a_choice_by_its_version(built, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", str(built.parent))
    told = json.loads(call("library", "use", version().rpartition(".")[0], "--json"))
    assert told["version"] == version()
    said = call("library", "use", "3.98", code=2)
    assert said.startswith("onednn-graph: no oneDNN 3.98 is found")
    assert "library list" in said


def test_a_choice_keeps_its_link(built):
    """Which leads to the next patch after an update."""
    call("library", "use", built.parent / "libdnnl.so.3.2")
    assert remembered.remembered() == built.parent / "libdnnl.so.3.2"


def test_the_variable_counts_more(built, monkeypatch):
    other = str(load().path)
    monkeypatch.setenv("ONEDNN_GRAPH_LIBRARY", other)
    said = call("library", "use", built)
    assert "ONEDNN_GRAPH_LIBRARY is set, which counts more" in said
    assert printed(LOADED)[:2] == [other, "ONEDNN_GRAPH_LIBRARY"]


def test_a_choice_that_is_gone_is_said_with_the_way_out(built):
    call("library", "use", built)
    built.unlink()
    told = printed("import json, onednn_graph as og; print(json.dumps(og.list_backends()))")
    assert told["numpy"] is None
    assert "there is no such file" in told["onednn"]
    assert told["onednn"].endswith("`onednn-graph library use default` forgets it")
    assert "library use default" in call("library", "info", code=1)
    assert call("library", "use", "default").startswith("forgotten; ")
    assert printed(LOADED)[2] is None


def test_a_choice_that_has_become_another_file_is_said_with_the_way_out(built):
    call("library", "use", built)
    built.unlink()
    shutil.copy(_libm(), built)
    told = printed("import json, onednn_graph as og; print(json.dumps(og.list_backends()))")
    assert "is no libdnnl" in told["onednn"]
    assert told["onednn"].endswith("`onednn-graph library use default` forgets it")


def _libm():
    """The library of mathematics, which this process has loaded; other files begin with that word too, libmvec say."""
    mapped = {Path(one.split()[-1]) for one in Path("/proc/self/maps").read_text().splitlines() if "/" in one}
    return next(one for one in mapped if re.fullmatch(r"libm(-\d.*)?\.so(\.\d+)*", one.name))


@pytest.mark.parametrize(
    "content",
    [b"\0\0", b"/x\0", b"\xff\xfe\n", "ä\n".encode(), b"libdnnl.so.3", b"~/libdnnl.so.3"],
    ids=["null", "with null", "bytes", "name", "in the folder", "at home"],
)
def test_a_choice_that_is_no_absolute_path_is_said_with_the_way_out(content, onednn, tmp_path, monkeypatch):
    """A file of that name in the folder that a program is started in might be anybody's."""
    monkeypatch.chdir(tmp_path)
    Path("libdnnl.so.3").write_bytes(b"\x7fELF" + bytes(14) + b"\x3e\0")
    settings_file().write_bytes(content)
    with pytest.raises(og.errors.LibraryError, match="must have an absolute path.*library use default"):
        finding.find_library()
    assert "library use default" in call("library", "list", code=1)
    assert call("library", "use", "default").startswith("forgotten; ")
    assert remembered.remembered() is None


def settings_file():
    file = remembered.settings_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


@pytest.mark.parametrize("content", [b"", b"\n\n"])
def test_an_empty_file_of_settings_chooses_nothing(content, onednn):
    settings_file().write_bytes(content)
    assert remembered.remembered() is None


def test_settings_that_cant_be_read_are_no_wheel(onednn, monkeypatch):
    """A folder in their place, or another user's file: something was chosen, and nobody knows what."""
    settings_file().mkdir()
    with pytest.raises(og.errors.LibraryError, match="can't be read.*Is a directory.*mend or remove"):
        finding.find_library()
    settings_file().rmdir()

    def refused(self):
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", refused)
        with pytest.raises(og.errors.LibraryError, match="can't be read.*Permission denied"):
            finding.find_library()
    folder = settings_file().parent
    folder.rmdir()
    folder.write_text("a file in the place of the folder")
    assert remembered.remembered() is None


@pytest.mark.skipif(not hasattr(os, "setuid"), reason="this system has no users of that kind")
def test_the_home_of_another_user_has_no_choice_of_this_one(tmp_path):
    """Programs that are started for another user may keep HOME: all of oneDNN was off then."""
    code = """
import json, os
from pathlib import Path
from onednn_graph.backends.onednn.library import remembered
settings = remembered.settings_file()
settings.parent.mkdir(parents=True)
settings.write_text("/usr/lib/chosen.so")
if os.getuid():
    Path(os.environ["XDG_CONFIG_HOME"]).parent.chmod(0)
else:
    os.setuid(65534)
print(json.dumps(remembered.remembered()))
"""
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o700)
    environment = {**os.environ, "XDG_CONFIG_HOME": str(locked / "config")}
    try:
        done = run(["-c", code], env=environment)
    finally:
        locked.chmod(0o700)
    assert (done.returncode, done.stdout.decode().strip()) == (0, "null"), done.stderr


def test_what_is_no_library_of_onednn(tmp_path):
    for command in (["info"], ["use"], ["pack"]):
        said = call("library", *command, _libm(), code=2)
        assert "is no libdnnl" in said, said
    assert remembered.remembered() is None


@pytest.mark.parametrize(("number", "name"), [(11, "SIGSEGV"), (40, "signal 40")])
def test_a_file_that_ends_the_process_is_told_of(number, name, monkeypatch, tmp_path):
    """Real-time signals have no names."""
    killer = tmp_path / "python"
    killer.write_text(f"#!/bin/sh\nkill -{number} $$\n")
    killer.chmod(0o755)
    monkeypatch.setattr(probing.sys, "executable", str(killer))
    assert probing.probe(Path("/x/libdnnl.so")).problem.endswith(f"by {name}")


def test_modules_in_the_folder_are_not_pythons(onednn, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("json.py").write_text("raise SystemExit('this is no module of JSON')")
    assert probing.probe(load().path).problem == ""


def test_a_wheel_is_preferred_where_it_is_installed(built, tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    told = json.loads(call("library", "pack", built, "--out", tmp_path / "out", "--json"))
    wheel = Path(told["wheel"])
    assert wheel.name == f"onednn_graph_library-{version()}-py3-none-linux_x86_64.whl"
    assert [Path(one).name for one in told["licences"]] == [*packing.LICENCES]
    again = json.loads(call("library", "pack", built, "--out", tmp_path / "again", "--json"))
    assert Path(again["wheel"]).read_bytes() == wheel.read_bytes()
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
        names = {name.partition("/")[2] for name in archive.namelist()}
    assert {
        "libdnnl.so.3",
        "METADATA",
        "WHEEL",
        "RECORD",
        *(f"licenses/{n}" for n in packing.LICENCES),
    } < names
    env = {**os.environ, "PYTHONPATH": str(site)}
    path, source, _ = printed(LOADED, env=env)
    assert (path, source) == (
        str(site / "onednn_graph_library" / "libdnnl.so.3"),
        "the distribution onednn-graph-library",
    )
    call("library", "use", built)
    assert printed(LOADED, env=env)[0] == str(built)  # a choice counts more


def test_a_library_that_needs_what_lies_beside_it_stays_where_it_is(built, tmp_path, monkeypatch):
    def alone(path, *, alone=False):
        return probing.Build(
            problem=f"{path} can't be loaded: libgomp.so.1: no such file; x" if alone else "", version="3.2"
        )

    monkeypatch.setattr(packing, "probe", alone)
    said = call("library", "pack", built, "--out", tmp_path / "out", code=1)
    assert "needs what lies beside it (libgomp.so.1: no such file)" in said
    assert f"onednn-graph library use {built}" in said
    assert not list((tmp_path / "out").iterdir())


def test_what_is_packed_is_what_was_tried(onednn, tmp_path, monkeypatch):
    """Though the file becomes another one meanwhile."""
    file = tmp_path / "libdnnl.so.3"
    file.write_bytes(b"before")
    tried = []

    def replacing(path, *, alone=False):
        tried.append(path.read_bytes())
        file.write_bytes(b"afterwards")
        return probing.Build(version="3.99", threads="threads")

    monkeypatch.setattr(packing, "probe", replacing)
    wheel, build, _ = packing.pack(file, tmp_path / "out")
    with zipfile.ZipFile(wheel) as archive:
        assert [archive.read(f"onednn_graph_library/{packing.FILE}")] == tried == [b"before"]
    assert build.version == "3.99"
    assert wheel.name.startswith("onednn_graph_library-3.99-")


def test_the_suite_itself_heeds_no_choice_of_the_users(built):
    call("library", "use", built)
    code = """
import json, sys
sys.path.insert(0, sys.argv[1])
import conftest
print(json.dumps(conftest.load().source))
"""
    assert printed(code, str(ROOT / "tests")) != remembered.WHO


def test_a_time_that_is_none(built, tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    assert "SOURCE_DATE_EPOCH must be seconds" in call("library", "pack", built, "--out", tmp_path, code=2)
