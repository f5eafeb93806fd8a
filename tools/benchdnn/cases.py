"""Cases: graphs with one setting of each of benchdnn's options, and the settings that make them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path

from attrs import Factory

from ...graph.model.fpmath import FpmathMode
from ...graph.model.logical_tensor import PropertyType
from ...ops.data_types import DataType
from ...ops.errors import ArgumentError
from ...ops.records import frozen
from ...ops.values import format_value

NUMBER = r"\d{1,20}"
"""Any of 64 bits; of thousands of digits Python makes no number."""


@frozen
class ShapeSetting:
    """What `--in-shapes` says of one tensor.

    Attributes:
        shape: the new sizes; None keeps them.
        order: axes from the slowest to the fastest, as letters from `a`; empty if no tag was given.
        strides: the new strides, in elements; None if none were given.
    """

    shape: tuple[int, ...] | None = None
    order: str = ""
    strides: tuple[int, ...] | None = None

    @classmethod
    def parse(cls, text: str, what: str) -> ShapeSetting:
        """From `2x32x4`, `2x32x4*acb`, `*acb`, `2x32x4*128x1x32`, `*128x1x32`, or `-` for a scalar.

        Raises:
            ArgumentError: nothing of the kind.
        """
        if text == "-":
            return cls(())
        sizes, star, layout = text.partition("*")
        shape = _sizes(sizes)
        if (sizes and shape is None) or (star and not layout) or not text:
            raise ArgumentError(
                f"{what} must be sizes and a layout such as 2x32x4, 2x32x4*acb, 2x32x4*128x1x32 or *acb, or - for "
                f"a scalar, got {format_value(text)}"
            )
        if not star:
            return cls(shape)
        strides = _sizes(layout)
        rank = None if shape is None else len(shape)
        if strides is not None:
            if rank not in (None, len(strides)):
                raise ArgumentError(
                    f"{what} must have as many strides as sizes, got {len(strides)} strides in {format_value(text)}"
                )
            return cls(shape, "", strides)
        letters = "".join(chr(ord("a") + axis) for axis in range(len(layout)))
        if sorted(layout) != list(letters) or rank not in (None, len(layout)):
            raise ArgumentError(
                f"{what} must have a tag with one letter for each axis, "
                f"{format_value(letters[:rank] or 'abcd')} in any "
                f"order, got {format_value(layout)} in {format_value(text)}"
            )
        return cls(shape, layout)

    def __str__(self) -> str:
        if self.shape == ():
            return "-"
        sizes = "" if self.shape is None else "x".join(map(str, self.shape))
        layout = self.order if self.strides is None else "x".join(map(str, self.strides))
        return f"{sizes}*{layout}" if layout else sizes


def _sizes(text: str) -> tuple[int, ...] | None:
    """The numbers of `2x3x4`; None for anything else."""
    return tuple(map(int, text.split("x"))) if re.fullmatch(f"{NUMBER}(x{NUMBER})*", text) else None


@frozen
class FpmathSetting:
    """What `--attr-fpmath` says: a mode, and whether it holds for integers too."""

    mode: FpmathMode
    apply_to_int: bool = False

    def __str__(self) -> str:
        return f"{self.mode}:true" if self.apply_to_int else f"{self.mode}"


@frozen(kw_only=True)
class Case:
    """One graph with one setting of each option.

    Attributes:
        path: the file as it was written; `-` is standard input.
        file: the file as it was found.
        content: what it holds, where that can be read only once.
        in_shapes: tensor id → new shape and layout.
        op_attrs: op id → attribute → new value, as written.
        expected_partitions: how many partitions benchdnn expects; 0 for any number.
        fpmath: replaces the file's mode.
        op_kinds: op id → new kind, or `undef` to remove the op.
        properties: tensor id → new property.
        data_type: new type of all floating-point tensors.
        tensor_types: tensor id → new type.
        mb: new size of the batch axis; 0 keeps it.
    """

    path: str
    file: Path
    in_shapes: Mapping[int, ShapeSetting] = Factory(dict[int, ShapeSetting])
    op_attrs: Mapping[int, Mapping[str, str]] = Factory(dict[int, Mapping[str, str]])
    expected_partitions: int = 1
    fpmath: FpmathSetting | None = None
    op_kinds: Mapping[int, str] = Factory(dict[int, str])
    properties: Mapping[int, PropertyType] = Factory(dict[int, PropertyType])
    data_type: DataType | None = None
    tensor_types: Mapping[int, DataType] = Factory(dict[int, DataType])
    mb: int = 0
    content: bytes | None = None

    @property
    def rewrites(self) -> bool:
        """Whether it changes anything of the graph."""
        asked = (
            self.in_shapes,
            self.op_attrs,
            self.fpmath,
            self.op_kinds,
            self.properties,
            self.tensor_types,
        )
        return any(asked) or self.data_type is not None or self.mb != 0

    def __str__(self) -> str:
        """The options that make this case, to be given again."""
        attributes = {
            i: "*".join(f"{n}:{v}" for n, v in values.items()) for i, values in self.op_attrs.items()
        }
        written: list[tuple[str, object]] = [
            ("mb", self.mb or None),
            ("dt", self.data_type or _pairs(self.tensor_types)),
            ("op-kind", _pairs(self.op_kinds)),
            ("tensor-property", _pairs(self.properties)),
            ("in-shapes", _pairs(self.in_shapes)),
            ("op-attrs", _pairs(attributes)),
            ("attr-fpmath", self.fpmath),
            ("expected-n-partitions", None if self.expected_partitions == 1 else self.expected_partitions),
            ("case", self.path),
        ]
        return " ".join(f"--{name}={value}" for name, value in written if value is not None)


def _pairs(values: Mapping[int, object]) -> str | None:
    return "+".join(f"{key}:{value}" for key, value in values.items()) or None


@frozen(kw_only=True)
class Settings:
    """The settings of each option that the next graph is run with; see `Case` for their meaning."""

    in_shapes: tuple[Mapping[int, ShapeSetting], ...] = ({},)
    op_attrs: tuple[Mapping[int, Mapping[str, str]], ...] = ({},)
    expected_partitions: tuple[int, ...] = (1,)
    fpmath: tuple[FpmathSetting | None, ...] = (None,)
    op_kinds: tuple[Mapping[int, str], ...] = ({},)
    properties: tuple[Mapping[int, PropertyType], ...] = ({},)
    data_types: tuple[DataType | None, ...] = (None,)
    tensor_types: tuple[Mapping[int, DataType], ...] = ({},)
    mb: tuple[int, ...] = (0,)

    def cases(self, path: str, file: Path, content: bytes | None = None) -> Iterator[Case]:
        """One case for each combination of the settings."""
        for shapes, attributes, expected, fpmath, kinds, properties, one, each, mb in product(
            self.in_shapes,
            self.op_attrs,
            self.expected_partitions,
            self.fpmath,
            self.op_kinds,
            self.properties,
            self.data_types,
            self.tensor_types,
            self.mb,
        ):
            yield Case(
                path=path,
                file=file,
                content=content,
                in_shapes=shapes,
                op_attrs=attributes,
                expected_partitions=expected,
                fpmath=fpmath,
                op_kinds=kinds,
                properties=properties,
                data_type=one,
                tensor_types=each,
                mb=mb,
            )
