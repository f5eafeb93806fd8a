"""benchdnn's command line for graphs: options, lists of settings and batch files become cases.

An option holds for all graphs after it, until it is given again or until `--reset`. A comma-separated list of
settings makes a case of each, and several lists one of each combination. Source: oneDNN's documentation of
benchdnn, `driver_graph.md` and `knobs_common.md`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from attrs import Factory, evolve, field

from ...graph.compile.backend import BACKENDS
from ...graph.model.fpmath import FpmathMode
from ...graph.model.logical_tensor import PropertyType
from ...graph.runtime.text_files import reason_of
from ...ops.data_types import DataType, parse_enum
from ...ops.errors import ArgumentError, nearest
from ...ops.records import define, frozen
from ...ops.values import format_value
from ..graph_files import STDIN, GraphFile
from .cases import NUMBER, Case, FpmathSetting, Settings, ShapeSetting

T = TypeVar("T")

UNDEFINED = "undef"
"""Keeps a data type as it is, and removes an op."""

REWRITTEN_TYPES = (DataType.f32, DataType.bf16, DataType.f16)
"""What `--dt` may make of all floating-point tensors at once."""

IGNORED = frozenset(
    {
        "allow-enum-tags-only",
        "attr-same-pd-check",
        "buffer-prefix",
        "canonical",
        "check-ref-impl",
        "cold-cache",
        "cpu-isa-hints",
        "ctx-exe",
        "ctx-init",
        "engine",
        "execution-mode",
        "fast-ref",
        "fix-times-per-prb",
        "global-impl",
        "global-skip-impl",
        "impl",
        "inplace",
        "match",
        "max-ms-per-prb",
        "mem-check",
        "memory-kind",
        "mode",
        "mode-modifier",
        "num-streams",
        "perf-template",
        "repeats-per-prb",
        "skip-impl",
        "start",
        "stream-kind",
        "summary",
    }
)
"""Options of benchdnn about engines, measuring and printing: they are accepted and change nothing here."""


@frozen(kw_only=True)
class CommandLine:
    """A whole command line.

    Attributes:
        cases: in the order in which they run.
        verbose: 0, or higher to see more.
        seed: of the data that the graphs are filled with.
        backend: the only backend to run on; None for the usual choice.
        json: whether data are to be written, and no lines.
        named: whether a file was named; a batch file may have no cases.
    """

    cases: tuple[Case, ...]
    verbose: int
    seed: int
    backend: str | None
    json: bool = False
    named: bool = True


def parse(arguments: Sequence[str], folders: Sequence[Path] = ()) -> CommandLine:
    """The cases that a command line asks for.

    Args:
        arguments: benchdnn's options of the graph driver, `--case=FILE` or `FILE` for each graph; and `--seed=N`,
            `--backend=NAME`, and `--corpus=FOLDER`, where relative paths are looked up too. `-` is standard input.
        folders: more folders to look relative paths up in.

    Raises:
        ArgumentError: an option that is unknown or has a value that it can't have, or a file that is not there.
    """
    reader = _Reader(folders=[Path(), *folders])
    reader.read(arguments)
    if reader.unused:
        raise ArgumentError(
            f"{' '.join(reader.unused)} stands behind the last file and changes nothing; settings come before the "
            "files that they are for"
        )
    return CommandLine(
        cases=tuple(reader.cases),
        verbose=reader.verbose,
        seed=reader.seed,
        backend=reader.backend,
        json=reader.json,
        named=reader.named,
    )


VALUED = {
    "backend": "--backend=numpy",
    "batch": "--batch=FILE",
    "case": "--case=FILE",
    "corpus": "--corpus=FOLDER",
    "seed": "--seed=7",
}
"""Options of ours, which other commands take apart from their values, as benchdnn's are never written."""


@define
class _Reader:
    """What was read so far."""

    folders: list[Path]
    settings: Settings = Factory(Settings)
    cases: list[Case] = Factory(list[Case])
    batches: list[Path] = Factory(list[Path])
    unused: list[str] = Factory(list[str])
    once: dict[Path, bytes] = Factory(dict[Path, bytes])
    verbose: int = field(default=0)
    seed: int = field(default=0)
    backend: str | None = field(default=None)
    json: bool = field(default=False)
    named: bool = field(default=False)

    def read(self, arguments: Iterable[str]) -> None:
        for argument in arguments:
            name, value = _split(argument)
            if name in VALUED and "=" not in argument:
                raise ArgumentError(f"{argument} takes its value behind =, as {VALUED[name]}")
            if name is None:
                self._add(argument)
            elif name == "case":
                self._add(value)
            elif name == "batch":
                self._batch(value)
            elif name == "reset":
                self.settings = Settings()
            elif name == "corpus":
                self.folders.append(Path(value))
            elif name == "verbose":
                self.verbose = _number(value or "1", argument)
            elif name == "seed":
                self.seed = _number(value, argument)
            elif name == "backend":
                self.backend = _backend(value)
            elif name == "json":
                self.json = True
            elif name in SETTERS:
                self.settings = SETTERS[name](self.settings, value)
                if not self.batches:
                    self.unused.append(argument)
            elif name not in IGNORED:
                known = [
                    *SETTERS,
                    *IGNORED,
                    "case",
                    "batch",
                    "reset",
                    "corpus",
                    "verbose",
                    "seed",
                    "backend",
                    "json",
                ]
                way = "onednn-graph check --help lists them"
                if name == "threads":
                    way = "--threads N stands before the command: onednn-graph --threads 4 check graph.json"
                raise ArgumentError(f"unknown option {format_value(argument)}{nearest(name, known)}; {way}")

    def _add(self, path: str) -> None:
        self.unused.clear()
        file = self._found(path, "graph")
        content = None if file.is_file() else self._once(file)
        self.cases.extend(self.settings.cases(path, file, content))

    def _once(self, file: Path) -> bytes:
        """What standard input or a pipe holds, however often it is named."""
        if file not in self.once:
            self.once[file] = GraphFile.at(file).content
        return self.once[file]

    def _batch(self, path: str) -> None:
        file = self._found(path, "batch file")
        regular = file.is_file()
        file = file.resolve() if regular else file
        if file in self.batches:
            raise ArgumentError(
                f"--batch={path}: the batch file is read while it is being read; cut the cycle"
            )
        # A corpus names its graphs from its root, and its batch files may be in any folder of it.
        if regular:
            self.folders.extend(folder for folder in file.parents if folder not in self.folders)
        self.batches.append(file)
        try:
            text = (file.read_bytes() if regular else self._once(file)).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ArgumentError(
                f"--batch={path}: must be UTF-8 text with arguments in it, got byte "
                f"{error.object[error.start]:#x} at {error.start}"
            ) from error
        except OSError as error:
            raise ArgumentError(f"--batch={path} can't be read: {reason_of(error)}") from error
        self.read(_words(text))
        self.batches.pop()

    def _found(self, path: str, what: str) -> Path:
        self.named = True
        if not path:
            raise ArgumentError(f"a {what} has an empty path; write --case=FILE.json or --batch=FILE")
        if Path(path) == STDIN:
            return STDIN
        for folder in self.folders:
            try:
                if (folder / path).exists() and not (folder / path).is_dir():
                    return folder / path
            except OSError as error:
                raise ArgumentError(
                    f"{what} {format_value(path)} can't be read: {reason_of(error)}"
                ) from error
        folders = [folder for folder in self.folders if (folder / path).is_dir()]
        if folders:
            raise ArgumentError(f"{what} {format_value(path)} is a folder; name a file in it")
        looked = ", ".join(str(folder) for folder in self.folders[:4])
        raise ArgumentError(
            f"{what} {format_value(path)} is not there, looked in {looked}; --corpus=FOLDER names another folder"
        )


def _backend(name: str) -> str | None:
    known = [backend.name for backend in BACKENDS]
    if name and name not in known:
        raise ArgumentError(f"--backend must be one of {', '.join(known)}, got {format_value(name)}")
    return name or None


def _split(argument: str) -> tuple[str | None, str]:
    """Name and value of an option; no name for a file."""
    verbose = re.fullmatch(r"-v=?(\d*)", argument)
    if verbose:
        return "verbose", verbose[1]
    if argument in ("--graph", "-graph"):  # benchdnn's driver of graphs
        return "mode", ""
    if not argument.startswith("-") or Path(argument) == STDIN:
        return None, argument
    name, _, value = argument.removeprefix("-").removeprefix("-").partition("=")
    return name, value


def _words(text: str) -> Iterator[str]:
    """The arguments in a batch file: words, without comments, with lines joined that end in a backslash."""
    begun = ""
    for line in text.splitlines():
        for word in line.split():
            if word.startswith("#"):
                break
            if word.endswith("\\"):
                begun += word[:-1]
                continue
            yield begun + word
            begun = ""
    if begun:
        yield begun


def _number(text: str, option: str) -> int:
    if not re.fullmatch(NUMBER, text):
        raise ArgumentError(f"{option} must have a number of 0 or more, got {format_value(text)}")
    return int(text)


def _listed(value: str, option: str, parse_one: Callable[[str, str], T], default: T) -> tuple[T, ...]:
    """The settings of a comma-separated list; an empty one is the default."""
    return tuple(parse_one(item, option) if item else default for item in value.split(","))


def _by_id(value: str, option: str, parse_one: Callable[[str, str], T]) -> tuple[Mapping[int, T], ...]:
    """The settings of `ID:VALUE[+ID:VALUE…][,…]`."""
    settings: list[Mapping[int, T]] = []
    for item in value.split(","):
        setting: dict[int, T] = {}
        for pair in filter(None, item.split("+")):
            name, colon, text = pair.partition(":")
            # oneDNN's own runs have `2*abc:3x64x8*abc`, and benchdnn reads the number.
            number = re.sub(r"\*[a-z]+$", "", name)
            if not (colon and text and re.fullmatch(NUMBER, number)):
                raise ArgumentError(
                    f"{option} must have ID:VALUE, joined by + for several ids and by , for several cases, "
                    f"got {format_value(pair)} in {format_value(value)}"
                )
            if int(number) in setting:
                raise ArgumentError(
                    f"{option} names the id {number} twice in {format_value(item)}; give it once"
                )
            setting[int(number)] = parse_one(text, f"{option}, id {number}")
        settings.append(setting)
    return tuple(settings)


def _attributes(text: str, what: str) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for part in text.split("*"):
        name, colon, value = part.partition(":")
        if not (colon and name and value):
            raise ArgumentError(
                f"{what} must have NAME:VALUE, joined by * for several attributes, got "
                f"{format_value(part)} in {format_value(text)}"
            )
        found[name] = value
    return found


def _data_type(text: str, option: str) -> DataType | None:
    if text == UNDEFINED:
        return None
    data_type = parse_enum(DataType, text, option)
    if data_type not in REWRITTEN_TYPES:
        raise ArgumentError(
            f"{option} must be one of {', '.join(REWRITTEN_TYPES)}, got {format_value(text)}; write "
            f"ID:{text} to change "
            "single tensors"
        )
    return data_type


def _types(settings: Settings, value: str) -> Settings:
    """`--dt` in either of its two forms, which exclude each other."""
    option = "--dt"
    each = ":" in value
    if value and (settings.data_types != (None,) if each else settings.tensor_types != ({},)):
        raise ArgumentError(
            f"{option}={value} comes after a --dt of the other form (one type for all tensors, or ID:TYPE); "
            "write --reset between them"
        )
    if each:
        return evolve(
            settings, tensor_types=_by_id(value, option, lambda text, what: parse_enum(DataType, text, what))
        )
    return evolve(settings, data_types=_listed(value, option, _data_type, None), tensor_types=({},))


def _property(text: str, what: str) -> PropertyType:
    return parse_enum(PropertyType, text, what)


def _written(text: str, what: str) -> str:
    return text


def _boolean(text: str, what: str) -> bool:
    if text.lower() not in ("true", "false", "1", "0"):
        raise ArgumentError(f"{what} must be true or false, got {format_value(text)}")
    return text.lower() in ("true", "1")


def _fpmath(text: str, option: str) -> FpmathSetting | None:
    mode, colon, to_int = text.partition(":")
    return FpmathSetting(parse_enum(FpmathMode, mode, option), colon != "" and _boolean(to_int, option))


SETTERS: dict[str, Callable[[Settings, str], Settings]] = {
    "in-shapes": lambda s, v: evolve(s, in_shapes=_by_id(v, "--in-shapes", ShapeSetting.parse)),
    "op-attrs": lambda s, v: evolve(s, op_attrs=_by_id(v, "--op-attrs", _attributes)),
    "op-kind": lambda s, v: evolve(s, op_kinds=_by_id(v, "--op-kind", _written)),
    "tensor-property": lambda s, v: evolve(s, properties=_by_id(v, "--tensor-property", _property)),
    "dt": _types,
    "mb": lambda s, v: evolve(s, mb=_listed(v, "--mb", _number, 0)),
    "expected-n-partitions": lambda s, v: evolve(
        s, expected_partitions=_listed(v, "--expected-n-partitions", _number, 1)
    ),
    "attr-fpmath": lambda s, v: evolve(s, fpmath=_listed(v, "--attr-fpmath", _fpmath, None)),
}
"""From the name of an option to what its value makes of the settings."""
