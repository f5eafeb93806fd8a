"""Problems of primitives as C programs that need nothing but oneDNN: for what benchdnn has no words for.

A program holds its data and what must come out, tries the implementation of the problem, and ends with 0 where all is
right, with 1 where something is wrong, and with 2 where the library does not offer the implementation.
"""

from __future__ import annotations

import numpy as np
from benchdnn_lines import packed
from primitive_problems import INPUTS, OUTPUTS

WINDOW = "strides, dilates, pads_begin, pads_end"
FORWARD = "dnnl_forward_inference, dnnl_{algorithm}"
CALLS = {
    "convolution_forward": f"(&pd, engine, {FORWARD}, src, weights, NULL, dst, {WINDOW}, NULL)",
    "deconvolution_forward": f"(&pd, engine, {FORWARD}, src, weights, NULL, dst, {WINDOW}, NULL)",
    "matmul": "(&pd, engine, src, weights, NULL, dst, NULL)",
    "pooling_forward": f"(&pd, engine, {FORWARD}, src, dst, strides, kernel, dilates, pads_begin, pads_end, NULL)",
    "resampling_forward": f"(&pd, engine, {FORWARD}, NULL, src, dst, NULL)",
    "resampling_backward": "(&pd, engine, dnnl_{algorithm}, NULL, diff_src, diff_dst, hint, NULL)",
}
"""Function → the arguments of its `dnnl_…_primitive_desc_create`."""
NUMBERS = ("strides", "kernel", "dilates", "pads_begin", "pads_end")
ARGUMENTS = {"src": "SRC", "weights": "WEIGHTS", "dst": "DST", "diff_src": "DIFF_SRC", "diff_dst": "DIFF_DST"}
HEAD = r"""#define _GNU_SOURCE
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "oneapi/dnnl/dnnl.h"

#define CHECK(call) do { dnnl_status_t s = (call); if (s != dnnl_success) { \
    printf("%s: status %d\n", #call, (int)s); exit(3); } } while (0)

static void put(dnnl_data_type_t type, void *memory, int64_t i, double value) {
    float f = (float)value; uint32_t bits;
    switch (type) {
        case dnnl_f32: ((float *)memory)[i] = f; break;
        case dnnl_s32: ((int32_t *)memory)[i] = (int32_t)value; break;
        case dnnl_s8: ((int8_t *)memory)[i] = (int8_t)value; break;
        case dnnl_u8: ((uint8_t *)memory)[i] = (uint8_t)value; break;
        case dnnl_bf16: memcpy(&bits, &f, 4); ((uint16_t *)memory)[i] = (uint16_t)(bits >> 16); break;
        default: exit(3);
    }
}

static double get(dnnl_data_type_t type, const void *memory, int64_t i) {
    float f; uint32_t bits;
    switch (type) {
        case dnnl_f32: return ((const float *)memory)[i];
        case dnnl_s32: return ((const int32_t *)memory)[i];
        case dnnl_s8: return ((const int8_t *)memory)[i];
        case dnnl_u8: return ((const uint8_t *)memory)[i];
        case dnnl_bf16: bits = (uint32_t)((const uint16_t *)memory)[i] << 16; memcpy(&f, &bits, 4); return f;
        default: exit(3);
    }
}

/* Where the element of a number, counted row by row, lies. */
static int64_t place(int64_t number, int rank, const int64_t *dims, const int64_t *strides) {
    int64_t at = 0;
    for (int axis = rank - 1; axis >= 0; axis--) {
        at += number % dims[axis] * strides[axis];
        number /= dims[axis];
    }
    return at;
}

static dnnl_engine_t engine;
static dnnl_stream_t stream;

/* Memory of a layout, so many bytes off a multiple of 64. */
static dnnl_memory_t memory_of(const_dnnl_memory_desc_t desc, size_t off) {
    dnnl_memory_t made;
    char *bytes = aligned_alloc(64, (dnnl_memory_desc_get_size(desc) + 127) / 64 * 64);
    CHECK(dnnl_memory_create(&made, desc, engine, bytes + off));
    return made;
}

static void *bytes_of(dnnl_memory_t memory) {
    void *bytes;
    CHECK(dnnl_memory_get_data_handle(memory, &bytes));
    return bytes;
}

"""
REORDER = r"""/* Copies between layouts by the first reorder whose name begins so. */
static int reorder(dnnl_memory_t from, dnnl_memory_t to, const char *name) {
    const_dnnl_memory_desc_t a, b; dnnl_primitive_desc_t pd; dnnl_primitive_t made; const char *found;
    CHECK(dnnl_memory_get_memory_desc(from, &a));
    CHECK(dnnl_memory_get_memory_desc(to, &b));
    CHECK(dnnl_reorder_primitive_desc_create(&pd, a, engine, b, engine, NULL));
    for (;;) {
        CHECK(dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &found));
        if (strncmp(found, name, strlen(name)) == 0) break;
        if (dnnl_primitive_desc_next_impl(pd) != dnnl_success) return 0;
    }
    CHECK(dnnl_primitive_create(&made, pd));
    dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    CHECK(dnnl_primitive_execute(made, stream, 2, args));
    CHECK(dnnl_stream_wait(stream));
    return 1;
}
"""


def program_of(name, problem):
    """The program for a problem.

    Args:
        name: of the rule that it is about, for its first lines.
        problem: a PrimitiveProblem.

    Raises:
        NotImplementedError: it has post-ops, scales or zero points, or a function that has no row here.
    """
    told = problem.told
    if told["function"] not in CALLS or any(told.get(key) for key in ("post_ops", "scales", "zero_points")):
        raise NotImplementedError(f"{name} has no words of benchdnn, and c_programs.py lacks what it takes")
    tensors, trial = told["tensors"], problem.trial
    result = next(one for one in tensors if one in OUTPUTS)
    given = {one: trial.inputs[INPUTS[one]][1] for one in tensors if one != result}
    expected = trial.outputs[OUTPUTS[result]][1]
    body = [
        *(_tensor(one, tensor) for one, tensor in tensors.items()),
        *(_array(f"{one}_data", array) for one, array in given.items()),
        _array("expected", expected),
        *(f"static const dnnl_dims_t {key} = {{{_listed(told[key])}}};" for key in NUMBERS if key in told),
    ]
    head = HEAD + REORDER if any(map(_is_opaque, tensors.values())) else HEAD
    return f"{_comment(name, told)}\n{head}\n{chr(10).join(body)}\n\nint main(void) {{\n{_main(told, result)}}}\n"


def _comment(name, told):
    lines = [f"oneDNN, {name}.", "", "    cc program.c -ldnnl -lm -o program && ./program"]
    if "threads" in told:
        lines.append(f"    OMP_NUM_THREADS={told['threads']}")
    return "/* " + "\n".join(lines) + "\n*/"


def _listed(values):
    return ", ".join(map(str, values))


def _array(name, array):
    values = [f"{v:.9g}" for v in np.ravel(array)]  # no more, for the last digits depend on who adds up
    lines = [", ".join(values[n : n + 24]) for n in range(0, len(values), 24)]
    return f"static const double {name}[] = {{\n    " + ",\n    ".join(lines) + "\n};"


def _strides(tensor):
    """Those of a tensor; of one whose layout is the library's, those of rows, in which it is brought there."""
    rank, layout = len(tensor["shape"]), tensor["layout"]
    if not isinstance(layout, str):
        return layout
    return packed(tensor["shape"], [0, *range(2, rank), 1] if layout == "last" else [*range(rank)])


def _is_opaque(tensor):
    return isinstance(tensor["layout"], str) and tensor["layout"] not in ("rows", "last")


def _tensor(name, tensor):
    """Its constants."""
    return (
        f"static const dnnl_dims_t {name}_dims = {{{_listed(tensor['shape'])}}};\n"
        f"static const dnnl_dims_t {name}_strides = {{{_listed(_strides(tensor))}}};"
    )


def _main(told, result):
    tensors = told["tensors"]
    lines = [f'setenv("ONEDNN_MAX_CPU_ISA", "{told["isa"]}", 0);'] if "isa" in told else []
    lines += [
        "CHECK(dnnl_engine_create(&engine, dnnl_cpu, 0));",
        "CHECK(dnnl_stream_create(&stream, engine, 0));",
    ]
    for name, tensor in tensors.items():
        rank, kind = len(tensor["shape"]), f"dnnl_{tensor['type']}"
        lines.append(f"dnnl_memory_desc_t {name}, {name}_plain;")
        plain = f"&{name}_plain, {rank}, {name}_dims, {kind}, {name}_strides"
        lines.append(f"CHECK(dnnl_memory_desc_create_with_strides({plain}));")
        if _is_opaque(tensor):
            tag = "format_tag_any" if tensor["layout"] == "any" else tensor["layout"]
            described = f"&{name}, {rank}, {name}_dims, {kind}, dnnl_{tag}"
            lines.append(f"CHECK(dnnl_memory_desc_create_with_tag({described}));")
        else:
            lines.append(f"{name} = {name}_plain;")
    lines += _hint(told)
    call = CALLS[told["function"]].format(algorithm=told.get("algorithm", ""))
    lines += [
        "dnnl_primitive_desc_t pd;",
        f"CHECK(dnnl_{told['function']}_primitive_desc_create{call});",
        f'const char *found, *wanted = "{told["implementation"]}";',
        "for (;;) {",
        "    CHECK(dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &found));",
        "    if (strncmp(found, wanted, strlen(wanted)) == 0) break;",
        "    if (dnnl_primitive_desc_next_impl(pd) == dnnl_success) continue;",
        '    printf("not offered: %s\\n", wanted);',
        "    return 2;",
        "}",
        f"dnnl_exec_arg_t args[{len(tensors)}];",
    ]
    for number, (name, tensor) in enumerate(tensors.items()):
        lines += _placed(told, name, tensor, is_result=name == result)
        lines.append(f"args[{number}] = (dnnl_exec_arg_t){{DNNL_ARG_{ARGUMENTS[name]}, {name}_memory}};")
    lines += _judged(told, result)
    return "".join(f"    {line}\n" for line in lines)


def _placed(told, name, tensor, *, is_result):
    """Memory of a tensor, and its data, which rows bring to a layout of the library's choice."""
    kind, rank = f"dnnl_{tensor['type']}", len(tensor["shape"])
    off = f"{told['offset']} * dnnl_data_type_size({kind})" if "offset" in told else "0"
    query = f"dnnl_primitive_desc_query_md(pd, dnnl_query_{name}_md, 0)"
    lines = [f"dnnl_memory_t {name}_memory = memory_of({query}, {off});"]
    staged = _is_opaque(tensor)
    to = f"{name}_staged" if staged else f"{name}_memory"
    if staged:
        lines.append(f"dnnl_memory_t {to} = memory_of({name}_plain, 0);")
    if is_result:
        return lines
    lines += [
        f"for (int64_t n = 0; n < (int64_t)(sizeof({name}_data) / sizeof(double)); n++)",
        f"    put({kind}, bytes_of({to}), place(n, {rank}, {name}_dims, {name}_strides), {name}_data[n]);",
    ]
    if staged:
        packs = told.get("pack", "") if name == "weights" else ""
        copied = f'reorder({to}, {name}_memory, "{packs}")'
        lines.append(f'if (!{copied}) {{ printf("no reorder is offered: {packs}\\n"); return 2; }}')
    return lines


def _hint(told):
    if told["function"] != "resampling_backward":
        return []
    kind = f"dnnl_{told['tensors']['diff_src']['type']}"
    rank = len(told["tensors"]["diff_src"]["shape"])
    return [
        "dnnl_memory_desc_t src_any, dst_any;",
        "dnnl_primitive_desc_t hint;",
        *(
            f"CHECK(dnnl_memory_desc_create_with_tag(&{end}_any, {rank}, diff_{end}_dims, {kind}, {tag}));"
            for end, tag in (("src", "dnnl_" + "abcde"[:rank]), ("dst", "dnnl_format_tag_any"))
        ),
        f"CHECK(dnnl_resampling_forward_primitive_desc_create(&hint, engine, dnnl_forward_training, "
        f"dnnl_{told['algorithm']}, NULL, src_any, dst_any, NULL));",
    ]


def _judged(told, result):
    """Runs it, and compares."""
    tensor = told["tensors"][result]
    within = told.get("absolute", 1e-4)
    read = f"{result}_memory" if not _is_opaque(tensor) else f"{result}_staged"
    copies = [f'reorder({result}_memory, {read}, "");'] if _is_opaque(tensor) else []
    return [
        "dnnl_primitive_t made;",
        "CHECK(dnnl_primitive_create(&made, pd));",
        f"CHECK(dnnl_primitive_execute(made, stream, {len(told['tensors'])}, args));",
        "CHECK(dnnl_stream_wait(stream));",
        *copies,
        "int wrong = 0, all = (int)(sizeof(expected) / sizeof(double));",
        "for (int n = 0; n < all; n++) {",
        f"    int64_t at = place(n, {len(tensor['shape'])}, {result}_dims, {result}_strides);",
        f"    double got = get(dnnl_{tensor['type']}, bytes_of({read}), at);",
        f"    if (fabs(got - expected[n]) <= {within} + 1e-5 * fabs(expected[n])) continue;",
        '    if (wrong++ == 0) printf("element %d: %g, expected %g\\n", n, got, expected[n]);',
        "}",
        'printf("%s: %d of %d elements wrong\\n", found, wrong, all);',
        "return wrong != 0;",
    ]
