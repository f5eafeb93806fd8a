"""Verdicts on the disk: kept, bounded, shared by processes, and never in the way of a compilation."""

import hashlib
import json
import logging
import multiprocessing
import os
import sqlite3
import sys
import threading
import warnings

import processes
import pytest
from onednn_graph.errors import ArgumentError
from onednn_graph.graph.runtime.cache_folder import cache_folder
from onednn_graph.graph.trust import settings, store
from onednn_graph.graph.trust.store import NAME, VerdictStore, VerdictStoreWarning
from onednn_graph.graph.trust.verdict import RIGHT, Kind, Verdict
from rows import each

WRONG = Verdict(Kind.wrong, "3 of 4 elements", "matmul (brg)")
READS = """
import json
from onednn_graph.graph.trust.store import STORE
print(json.dumps({key: one.kind for key, one in STORE.rows().items()}))
"""


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "kept" / "there"


def opened(folder):
    """As another process would find it."""
    return VerdictStore(lambda: folder)


def raw(folder):
    return sqlite3.connect(folder / NAME)


def as_nobody(work):
    """What a process without the rights of root answers: those of root can write where nobody can."""
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        if os.getuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        try:
            os.write(writable, repr(work()).encode())
        except BaseException as error:
            os.write(writable, f"{error!r}".encode())
        os._exit(0)
    os.close(writable)
    with open(readable, "rb") as answer:
        told = answer.read().decode()
    os.waitpid(child, 0)
    return told


# --- what is kept ---------------------------------------------------------------------------------------


def test_what_is_put_is_known_here_and_elsewhere(folder):
    first = opened(folder)
    first.put({"a": RIGHT, "b": WRONG})
    for one in (first, opened(folder)):
        assert one.known(["b", "a", "c", "a"]) == {"b": WRONG, "a": RIGHT}
    assert opened(folder).rows() == {"a": RIGHT, "b": WRONG}


def test_nothing_is_made_by_asking(folder):
    assert opened(folder).known(["a"]) == {}
    assert opened(folder).rows() == {}
    assert not folder.exists()


def test_what_is_known_is_asked_for_once(folder, monkeypatch):
    opened(folder).put({str(number): RIGHT for number in range(2000)})
    asked = []
    monkeypatch.setattr(store, "_opened", lambda *a, do=store._opened: asked.append(a) or do(*a))
    one = opened(folder)
    assert len(one.known(map(str, range(2000)))) == 2000
    assert len(asked) == 1
    for _ in range(3):
        one.known(map(str, range(2000)))
    assert len(asked) == 1


@each("kind", [kind for kind in Kind if kind is not Kind.right])
def test_what_is_bad_stays_bad(folder, kind):
    one = opened(folder / kind)
    one.put({"a": Verdict(kind, "it was")})
    for other in (one, opened(folder / kind)):
        other.put({"a": RIGHT})
        assert other.known(["a"])["a"].kind is kind
    assert opened(folder / kind).known(["a"])["a"].kind is kind


def test_what_turns_out_bad_is_bad_for_others(folder):
    first, second = opened(folder), opened(folder)
    first.put({"a": RIGHT})
    second.put({"a": WRONG})
    assert opened(folder).known(["a"]) == {"a": WRONG}


def test_those_not_used_for_longest_go(folder, monkeypatch):
    monkeypatch.setattr(store, "MOST", 10)
    clock = iter(range(10**17, 2 * 10**17, 2 * store.DAY))
    monkeypatch.setattr(store, "_now", lambda: next(clock))
    for number in range(10):
        opened(folder).put({str(number): RIGHT})
    opened(folder).known(["0"])  # noted as used
    opened(folder).put({"new": RIGHT, "newer": RIGHT})
    assert set(opened(folder).rows()) == {"0", *map(str, range(3, 10)), "new", "newer"}
    assert next(iter(opened(folder).rows())) in ("new", "newer")


def test_what_is_seen_is_cut(folder):
    opened(folder).put({"a": Verdict(Kind.wrong, "x" * 10**6, "y" * 10**6)})
    assert len(opened(folder).known(["a"])["a"].seen) == store.LONGEST


def test_another_folder_has_others(tmp_path):
    here = [tmp_path / "a"]
    one = VerdictStore(lambda: here[0])
    one.put({"a": RIGHT})
    here[0] = tmp_path / "b"
    assert one.known(["a"]) == {}
    here[0] = tmp_path / "a"
    assert one.known(["a"]) == {"a": RIGHT}


def test_a_fork_goes_on_with_it(folder):
    one = opened(folder)
    one.put({"a": RIGHT})

    def forked():
        one.put({"b": WRONG})
        return sorted(one.known(["a", "b"]))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os._exit(0 if forked() == ["a", "b"] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert one.known(["b"]) == {"b": WRONG}


# --- several at once ------------------------------------------------------------------------------------


def _puts(folder, number, start):
    warnings.simplefilter("error")
    one = opened(folder)
    start.wait()
    for row in range(25):
        one.put({f"{number} {row}": RIGHT, "shared": RIGHT})
        one.known([f"{(number + 1) % 4} {row}"])


def test_four_processes_at_once(folder):
    """Which begin with no file."""
    context = multiprocessing.get_context("spawn")
    start = context.Event()
    working = [context.Process(target=_puts, args=(folder, number, start)) for number in range(4)]
    for one in working:
        one.start()
    start.set()
    for one in working:
        one.join(120)
    assert [one.exitcode for one in working] == [0] * 4
    assert set(opened(folder).rows()) == {"shared", *(f"{n} {row}" for n in range(4) for row in range(25))}


def test_threads_at_once(folder):
    one = opened(folder)
    working = [
        threading.Thread(target=lambda n=n: [one.put({f"{n} {row}": RIGHT}) for row in range(10)])
        for n in range(8)
    ]
    for thread in working:
        thread.start()
    for thread in working:
        thread.join()
    assert len(opened(folder).rows()) == 80


def test_a_file_that_is_kept_locked_is_done_without(folder, monkeypatch, caplog):
    opened(folder).put({"a": RIGHT})
    monkeypatch.setattr(store, "PATIENCE", 0.01)
    with raw(folder) as other:
        other.execute("BEGIN EXCLUSIVE")
        one = opened(folder)
        with caplog.at_level(logging.DEBUG, store.LOGGER.name):
            one.put({"b": RIGHT})
            one.put({"c": RIGHT})
            assert one.known(["a", "b", "c"]) == {"b": RIGHT, "c": RIGHT}
    other.close()
    assert len(caplog.records) == 1
    assert set(opened(folder).rows()) == {"a"}


# --- what is wrong with the file ------------------------------------------------------------------------


def torn(path):
    content = path.read_bytes()
    path.write_bytes(content[:4096] + os.urandom(len(content) - 4096))


def without_tables(path):
    path.unlink()
    with sqlite3.connect(path) as file:
        file.execute(f"PRAGMA user_version = {store.FORMAT}")
    file.close()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(b"no database at all, but a text that is long enough " * 100),
        torn,
        lambda path: path.write_bytes(path.read_bytes()[:5000]),
        without_tables,
        lambda path: path.write_bytes(path.read_bytes().replace(b"CREATE TABLE v", b"CREATE TABL\xfe v")),
    ],
    ids=["a text", "torn", "cut", "another's", "no text"],
)
@pytest.mark.parametrize("first", ["known", "put", "rows"])
def test_a_corrupt_file_is_renamed_and_said(folder, spoil, first):
    opened(folder).put({str(number): WRONG for number in range(200)})
    spoil(folder / NAME)
    one = opened(folder)
    with pytest.warns(VerdictStoreWarning, match=rf"{NAME}.corrupt") as said:
        {
            "known": lambda: one.known(map(str, range(300))),
            "put": lambda: one.put({str(n): RIGHT for n in range(300)}),
            "rows": one.rows,
        }[first]()
    assert len(said) == 1
    assert (folder / f"{NAME}.corrupt").exists()
    one.put({"new": RIGHT})
    assert opened(folder).known(["new"]) == {"new": RIGHT}
    assert opened(folder).known(["0"]) == ({"0": RIGHT} if first == "put" else {})


def test_an_empty_file_is_filled(folder):
    folder.mkdir(parents=True)
    (folder / NAME).touch()
    assert opened(folder).known(["a"]) == {}
    opened(folder).put({"a": RIGHT})
    assert opened(folder).known(["a"]) == {"a": RIGHT}


def test_a_new_file_of_another_process_is_not_renamed(folder):
    """Two see a corrupt file; the second one finds what the first has made."""
    one = opened(folder)
    one.put({"a": RIGHT})
    one._set_aside(folder / NAME, ValueError("as it was"))
    assert opened(folder).known(["a"]) == {"a": RIGHT}
    assert not (folder / f"{NAME}.corrupt").exists()


@pytest.mark.parametrize("damage", ["kind = 'splendid'", "kind = x'61'", "seen = x'80'", "used = 'x'"])
def test_rows_of_unknown_kinds_say_nothing(folder, damage):
    opened(folder).put({"a": RIGHT, "b": RIGHT})
    with raw(folder) as file:
        file.execute(f"UPDATE verdicts SET {damage} WHERE key = 'a'")
    file.close()
    assert (
        set(opened(folder).known(["a", "b"])) == {"b"} <= {*json.loads(opened(folder).exported())["verdicts"]}
    )


def test_a_file_of_a_later_version_is_left_alone(folder, caplog):
    opened(folder).put({"a": RIGHT})
    with raw(folder) as file:
        file.execute(f"PRAGMA user_version = {store.FORMAT + 1}")
    file.close()
    before = (folder / NAME).read_bytes()
    one = opened(folder)
    with caplog.at_level(logging.DEBUG, store.LOGGER.name):
        assert one.known(["a"]) == {}
        one.put({"b": RIGHT})
    assert one.known(["b"]) == {"b": RIGHT}
    assert (folder / NAME).read_bytes() == before
    assert len(caplog.records) == 1


def test_a_file_of_an_older_version_is_begun_anew(folder, monkeypatch):
    opened(folder).put({"a": RIGHT})
    monkeypatch.setattr(store, "FORMAT", store.FORMAT + 1)
    one = opened(folder)
    assert one.known(["a"]) == {}
    one.put({"b": RIGHT})
    assert set(opened(folder).rows()) == {"b"}


# --- folders --------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "setuid"), reason="the system has no users")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("there", [True, False])
def test_a_folder_that_cannot_be_written(tmp_path, there):
    folder = tmp_path / "kept"
    folder.mkdir()
    if there:
        opened(folder).put({"a": RIGHT})
    for part in (folder, tmp_path, *tmp_path.parents[:3]):
        part.chmod(0o755 if part != folder else 0o555)
    one = opened(folder)

    def work():
        warnings.simplefilter("error")
        logs = []
        store.LOGGER.setLevel(logging.DEBUG)
        store.LOGGER.addHandler(handler := logging.Handler())
        handler.emit = logs.append
        one.put({"b": WRONG})
        one.put({"c": WRONG})
        return sorted(one.known("abc")), sorted(one.rows()), len(logs)

    expected = ["a", "b", "c"] if there else ["b", "c"]
    assert as_nobody(work) == repr((expected, expected, 1))
    folder.chmod(0o755)
    assert set(opened(folder).rows()) == ({"a"} if there else set())


def test_a_file_in_the_way_of_the_folder(tmp_path):
    (tmp_path / "a").write_text("no folder")
    one = opened(tmp_path / "a")
    one.put({"a": RIGHT})
    assert one.known(["a", "b"]) == {"a": RIGHT}
    assert (one.clear(), one.rows()) == (1, {})


def test_a_user_without_a_home(tmp_path):
    """And without an entry among the system's users, as in a container: nothing is written where the program is."""
    code = """
import json, os, pwd, sys
pwd.getpwuid = lambda number: (_ for _ in ()).throw(KeyError(number))
from onednn_graph.graph.runtime.cache_folder import cache_folder
from onednn_graph.backends.onednn import tuning_cache
from onednn_graph.graph.trust.store import STORE
from onednn_graph.graph.trust.verdict import RIGHT
STORE.put({"a": RIGHT})
tuning_cache.remember({"a": 1}, {"b": 1.0})
print(json.dumps([str(cache_folder()), list(STORE.known("ab")), list(STORE.rows()), tuning_cache.remembered({"a": 1}),
                  tuning_cache.forget({"a": 1}), STORE.clear(), os.listdir()]))
"""
    gone = ("HOME", "XDG_CACHE_HOME", "ONEDNN_GRAPH_CACHE")
    environment = {name: value for name, value in os.environ.items() if name not in gone}
    done = processes.run(["-c", code], env=environment, cwd=tmp_path)
    assert not done.returncode, done.stderr
    assert done.stdout.decode().strip() == '["None", ["a"], ["a"], {}, false, 1, []]'


def test_the_folder_is_that_of_times(monkeypatch):
    assert store.STORE.path == cache_folder() / NAME
    monkeypatch.setenv("ONEDNN_GRAPH_CACHE", "elsewhere")
    assert store.STORE.path.parts == ("elsewhere", NAME)


def test_a_python_without_sqlite_says_so_once(folder, monkeypatch):
    monkeypatch.setattr(store, "sqlite3", None)
    one = opened(folder)
    with pytest.warns(VerdictStoreWarning, match="no module sqlite3"):
        one.put({"a": RIGHT})
    assert one.known(["a", "b"]) == {"a": RIGHT}
    assert one.clear() == 1
    assert not folder.exists()


def test_it_is_imported_without_sqlite():
    code = """
import sys, json
sys.modules["sqlite3"] = None
for name in [n for n in sys.modules if n.startswith("onednn_graph.graph.trust")]:
    del sys.modules[name]
from onednn_graph.graph.trust import store
print(json.dumps(store.sqlite3))
"""
    assert processes.printed(code) is None


# --- clear, export, import ------------------------------------------------------------------------------


def test_what_is_cleared_is_gone(folder):
    one = opened(folder)
    one.put({"a": WRONG, "b": RIGHT})
    assert one.clear() == 2
    assert one.known(["a"]) == {} == opened(folder).rows()
    assert one.clear() == 0
    one.put({"a": RIGHT})
    assert opened(folder).known(["a"]) == {"a": RIGHT}


def test_what_is_exported_can_be_imported(tmp_path):
    first, second = opened(tmp_path / "1"), opened(tmp_path / "2")
    first.put({"a": WRONG, "b": RIGHT, "ü": Verdict(Kind.endless, "∞")})
    second.put({"b": WRONG})
    assert second.imported(first.exported()) == 3
    assert opened(tmp_path / "2").rows() == {**first.rows(), "b": WRONG}


def text_of(verdicts, version=1):
    return json.dumps({"format": "onednn_graph verdicts", "version": version, "verdicts": verdicts})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        "[" * 100_000,
        b"\xff\xfe\x00",
        '{"version": 1, "verdicts": {}}',
        text_of({}, version=99),
        *map(text_of, ([], None, {"a": 5})),
        text_of({"a": {"kind": "right"}}),
        text_of({"a": {"kind": "fine", "seen": "", "about": ""}}),
        text_of({"a": {"kind": "right", "seen": 1, "about": ""}}),
    ],
)
def test_other_texts_are_refused(folder, text):
    with pytest.raises(ArgumentError, match="verdict"):
        opened(folder).imported(text)
    assert opened(folder).rows() == {}


# --- files' digests -------------------------------------------------------------------------------------


def test_a_file_is_read_once(tmp_path, monkeypatch):
    file, folder = tmp_path / "lib.so", tmp_path / "kept"
    file.write_bytes(b"a library")
    digest = hashlib.sha256(b"a library").hexdigest()
    assert opened(folder).digest_of(file) == digest
    read = []
    monkeypatch.setattr(hashlib, "file_digest", lambda *a, do=hashlib.file_digest: read.append(a) or do(*a))
    assert opened(folder).digest_of(file) == digest
    assert not read
    file.write_bytes(b"another")
    assert opened(folder).digest_of(file) == hashlib.sha256(b"another").hexdigest()
    assert len(read) == 1


def test_a_file_that_changes_while_a_process_runs(tmp_path):
    file, one = tmp_path / "lib.so", opened(tmp_path / "kept")
    file.write_bytes(b"a library")
    before = one.digest_of(file)
    os.utime(file, (1, 1))
    assert one.digest_of(file) == before
    file.write_bytes(b"2 library")
    assert one.digest_of(file) != before
    with pytest.raises(FileNotFoundError):
        one.digest_of(tmp_path / "none")


def test_digests_of_files_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "MOST_FILES", 3)
    one = opened(tmp_path / "kept")
    for number in range(6):
        (tmp_path / str(number)).write_text(str(number))
        one.digest_of(tmp_path / str(number))
    with raw(tmp_path / "kept") as file:
        assert file.execute("SELECT count(*) FROM files").fetchone() == (3,)
    file.close()


# --- settings -------------------------------------------------------------------------------------------


@each("text, means", [("", "child"), ("child", "child"), ("Inline", "inline"), ("OFF", "off")])
def test_what_the_environment_says(text, means):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONEDNN_GRAPH_VERIFY", text)
        assert settings.verifying() == means


@each("text", ["0", "on", "childs", " off", "\U0001f9d2"])
def test_what_it_must_not_say(text):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONEDNN_GRAPH_VERIFY", text)
        with pytest.raises(ArgumentError, match="must be one of child, inline, off"):
            settings.verifying()


def test_another_process_reads_what_this_one_wrote():
    store.STORE.put({"a": RIGHT, "b": WRONG})
    assert processes.printed(READS) == {"a": "right", "b": "wrong"}
    assert "sqlite3" in sys.modules
