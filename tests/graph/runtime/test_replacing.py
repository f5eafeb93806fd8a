"""Files are written whole or not at all."""

import errno
import os
import signal
import stat
import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onednn_graph as og
import processes
import pytest
from onednn_graph.backends.onednn import tuning_cache
from onednn_graph.graph.io.serialization import dump, from_graph
from onednn_graph.graph.runtime import replacing as module
from onednn_graph.graph.runtime.replacing import replacing
from onednn_graph.tools.data_files import save_outputs

resource = pytest.importorskip("resource", reason="of POSIX systems")
posix = pytest.mark.skipif(os.name != "posix", reason="of POSIX systems")


def write(content, *paths):
    with replacing(*paths) as files:
        for file in files:
            file.write(content)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_written_and_replaced(tmp_path):
    for content in (b"old", b"new and longer", b""):
        write(content, tmp_path / "a", str(tmp_path / "b"))
        assert [(tmp_path / name).read_bytes() for name in "ab"] == [content] * 2
    assert names(tmp_path) == ["a", "b"]


def interrupted(*paths):
    with replacing(*paths) as files:
        for file in files:
            file.write(b"new" * 100_000)
        raise KeyboardInterrupt


@pytest.mark.parametrize("nameless", [True, False])
def test_an_error_half_way_leaves_what_was_there(tmp_path, monkeypatch, nameless):
    if not nameless:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    write(b"old", tmp_path / "a")
    with pytest.raises(KeyboardInterrupt):
        interrupted(tmp_path / "a", tmp_path / "b")
    with pytest.raises(OSError, match="No such file"):
        write(b"new", tmp_path / "a", tmp_path / "no" / "b")
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


@pytest.mark.parametrize("there", [True, False])
def test_of_several_files_none_is_replaced_where_one_can_t_be(tmp_path, monkeypatch, there):
    paths = [tmp_path / name for name in "abc"]
    if there:
        write(b"old", *paths)
    replace, calls = os.replace, []

    def fails(source, target):
        calls.append(target)
        if len(calls) == 3:
            raise OSError(errno.EIO, "broken")
        replace(source, target)

    monkeypatch.setattr(module.os, "replace", fails)
    with pytest.raises(OSError, match="broken"):
        write(b"new", *paths)
    assert names(tmp_path) == (["a", "b", "c"] if there else [])
    assert all(path.read_bytes() == b"old" for path in paths if there)


def test_where_the_system_gives_no_name_to_a_nameless_file(tmp_path, monkeypatch):
    def refuses(*_, **__):
        raise OSError(errno.EXDEV, "refused")

    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "a").chmod(0o640)
    monkeypatch.setattr(module.os, "link", refuses)
    write(b"new", tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("broken", [True, False])
def test_several_files_where_nothing_has_two_names(tmp_path, monkeypatch, broken):
    """As on FAT, which sticks and cards have."""

    def refuses(*_, **__):
        raise PermissionError(errno.EPERM, "refused")

    def fails(source, target):
        if target == paths[1] and broken and not failed:
            failed.append(target)
            raise OSError(errno.EIO, "broken")
        replace(source, target)

    paths, failed, replace = [tmp_path / name for name in "ab"], [], os.replace
    for path in paths:
        path.write_bytes(b"old")
    monkeypatch.setattr(module.os, "link", refuses)
    monkeypatch.setattr(module.os, "replace", fails)
    if broken:
        with pytest.raises(OSError, match="broken"):
            write(b"new", *paths)
    else:
        write(b"new", *paths)
    assert [path.read_bytes() for path in paths] == [b"old" if broken else b"new"] * 2
    assert names(tmp_path) == ["a", "b"]


@posix
def test_permissions_stay_and_begin_as_the_user_wants_them(tmp_path):
    before = os.umask(0o027)
    try:
        write(b"", tmp_path / "a")
        assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640
        (tmp_path / "a").chmod(0o604)
        write(b"x", tmp_path / "a")
        assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o604
    finally:
        os.umask(before)


@posix
def test_links_are_followed(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "file")
    for content in (b"1", b"2"):  # to nothing, and to a file
        write(content, tmp_path / "link")
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "real" / "file").read_bytes() == content


@posix
def test_a_pipe_is_written_to(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    got = []
    reader = threading.Thread(target=lambda: got.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    write(b"through", tmp_path / "pipe")
    reader.join(10)
    assert got == [b"through"]
    assert (tmp_path / "pipe").is_fifo()
    script = """
from onednn_graph.graph.runtime.replacing import replacing
with replacing('/dev/stdout') as (file,):
    file.write(b'said')
"""
    with (tmp_path / "out").open("wb") as out:
        assert processes.run(["-c", script], stdout=out).returncode == 0
    assert (tmp_path / "out").read_bytes() == b"said"


@posix
def test_a_name_may_be_as_long_as_names_can_be(tmp_path):
    path = tmp_path / ("n" * 255)
    write(b"x", path)
    assert path.read_bytes() == b"x"


def relu():
    graph = og.Graph()
    graph.relu(graph.input("x", "f32", [4]), name="y")
    return graph


def profiled():
    graph = relu()
    with og.profile() as profile:
        graph.compile()(np.ones(4, "f4"))
    return profile


def trained():
    pytest.importorskip("safetensors")
    graph = og.Graph()
    w = graph.parameter(np.ones((4, 1), "f4"), name="w")
    y = graph.matmul(graph.input("x", "f32", [2, 4]), w)
    trainer = og.training.Trainer(graph, graph.reduce_mean(y, axes=[0, 1]), og.training.SGD(0.1))
    return trainer.save


def weighty():
    pytest.importorskip("safetensors")
    graph = relu()
    graph.output(graph.constant(np.ones(1000, "f4"), name="c"))
    return lambda path: graph.save(path, weights=True)


# Everything that writes a file at a path of the user's.
WRITERS = {
    "graph": lambda: relu().save,
    "weights": weighty,
    "document": lambda: lambda path: dump(from_graph(relu()), path),
    "compiled": lambda: relu().compile().save_compiled,
    "page": lambda: relu().to_html,
    "dot": lambda: relu().to_dot,
    "trace": lambda: profiled().save_trace,
    "flames": lambda: profiled().to_html,
    "checkpoint": trained,
    "table": lambda: lambda path: save_outputs(Path(path), {"y": np.ones(10_000, "f4")}),
}


@contextmanager
def full_disk(limit=40):
    """No file can have more bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    former = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, former)


@posix
@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_leaves_the_file_of_before(tmp_path, name):
    """Of all that writes files; no file may have more than 40 bytes."""
    path = tmp_path / "file.json"
    path.write_bytes(b"precious")
    writer = WRITERS[name]()
    with full_disk(), pytest.raises(og.OneDNNGraphError, match=r"can't be written.*[Ff]ile too large"):
        writer(path)
    assert path.read_bytes() == b"precious"
    assert names(tmp_path) == ["file.json"]


@posix
def test_a_full_disk_leaves_the_tuning_file_of_before(monkeypatch, tmp_path):
    monkeypatch.setenv("ONEDNN_GRAPH_CACHE", str(tmp_path))
    tuning_cache.remember({"a": 1}, {"x": 1.0})
    with full_disk(), pytest.warns(tuning_cache.TuningCacheWarning, match="can't be kept"):
        tuning_cache.remember({"a": 1}, {"x" * 1000: 2.0})
    assert tuning_cache.remembered({"a": 1}) == {"x": 1.0}
    assert len(names(tmp_path)) == 1


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="of Linux")
def test_a_process_that_is_killed_leaves_nothing(tmp_path):
    script = f"""
import os, signal
from onednn_graph.graph.runtime.replacing import replacing
with replacing({str(tmp_path / "a")!r}) as (file,):
    file.write(b"x" * 100_000)
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    (tmp_path / "a").write_bytes(b"old")
    done = processes.run(["-c", script])
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / "a").read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


MANY = """
import sys, threading
from onednn_graph.graph.runtime.replacing import replacing, undisturbed
from pathlib import Path
folder, seed = Path(sys.argv[1]), int(sys.argv[2])
def write(number):
    for turn in range(10):
        with replacing(folder / "a", folder / "b") as files:
            for file in files:
                file.write(b"%d %d %d" % (seed, number, turn))
threads = [threading.Thread(target=write, args=(n,)) for n in range(3)]
for thread in threads: thread.start()
for thread in threads:
    while thread.is_alive():
        with undisturbed(folder, reading=True):
            pair = [(folder / n).read_bytes() if (folder / n).exists() else b"" for n in "ab"]
        assert pair[0] == pair[1], pair
"""


@posix
def test_threads_and_processes_that_write_the_same_files(tmp_path):
    """Two files that belong together are always of one writer."""
    children = [processes.start(["-c", MANY, tmp_path, n], stderr=subprocess.PIPE) for n in range(2)]
    for child in children:
        with child:
            said = child.stderr.read().decode()
            assert child.wait() == 0, said
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert names(tmp_path) == ["a", "b"]


@posix
def test_a_folder_that_somebody_has_locked_is_not_waited_for_for_ever(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr(module, "PATIENCE", 0.05)
    handle = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        write(b"x", tmp_path / "a", tmp_path / "b")
    finally:
        os.close(handle)
    assert names(tmp_path) == ["a", "b"]
