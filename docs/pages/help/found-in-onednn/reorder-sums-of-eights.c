/* oneDNN, reorder/sums-of-eights.

    cc program.c -ldnnl -lm -o program && ./program
*/
#define _GNU_SOURCE
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

/* Copies between layouts by the first reorder whose name begins so. */
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

static const dnnl_dims_t src_dims = {1, 8, 5, 5};
static const dnnl_dims_t src_strides = {200, 1, 40, 8};
static const dnnl_dims_t weights_dims = {8, 8, 1, 1};
static const dnnl_dims_t weights_strides = {8, 1, 1, 1};
static const dnnl_dims_t dst_dims = {1, 8, 5, 5};
static const dnnl_dims_t dst_strides = {200, 1, 40, 8};
static const double src_data[] = {
    2, 1, 0, -2, -1, -3, -3, -3, -2, 2, 1, 3, 0, 1, 3, 2, 1, 0, 0, 3, -2, 2, 1, -3,
    -1, 3, 0, -3, 2, 2, 2, -2, -3, 3, -3, 0, -3, -1, 0, -1, -1, -3, -3, -3, -3, 1, 0, 1,
    -2, 1, 2, -1, 0, 3, 2, 3, -1, 1, 3, 1, 2, 1, 1, -1, 3, -3, 1, 2, 2, 0, -1, -1,
    -1, 0, 2, 3, -3, 3, 0, -1, 1, 1, -2, -1, 2, 1, 0, -1, 2, -1, -1, 3, -2, -2, 1, 1,
    -3, -3, -1, 2, -1, 2, -1, -2, 2, 3, -3, -3, 1, -1, 1, -2, 3, 0, 3, 2, 1, -2, 2, -3,
    0, -1, 3, -2, 3, -3, 1, 1, 3, -1, 3, 1, 3, -2, 2, 3, -3, -1, 1, -3, 0, 1, 2, 3,
    -1, 0, 0, 3, -2, 0, -3, -1, 3, 1, -1, 3, 1, 3, -3, 0, 2, 2, -1, 0, -1, 0, -2, 2,
    -3, -1, -2, 2, 2, 1, 3, 3, -2, -3, -3, 2, 3, 3, 1, 3, 3, -3, -3, 3, -3, 3, 2, 3,
    -1, -2, 0, 3, -1, 3, -1, 2
};
static const double weights_data[] = {
    -2, 0, -1, -2, 3, 2, -3, 3, 3, -2, -1, 0, 1, 0, -2, 3, 1, -3, 2, 2, -2, 1, 0, -3,
    3, 2, -1, -3, -3, 2, -2, 0, 3, 3, -2, -3, 0, 2, 1, -3, 1, -1, -2, 0, 3, 3, -3, 0,
    2, -2, -2, -2, -2, 3, -2, -2, -3, -3, 2, -1, 2, 1, 3, 0
};
static const double expected[] = {
    -3, 10, -25, -11, 15, 16, 4, 0, 20, 1, -12, -34, 20, -12, 8, 13, 11, -9, 17, -16, 18, -9, 23, -8,
    2, 12, 2, -10, -26, 1, -10, 0, -10, 1, 19, -11, -1, 15, -5, 22, 19, 22, -5, 6, 14, 6, -1, 10,
    -12, -4, -7, -4, 27, 14, -16, -13, 1, 10, -20, 12, 17, 24, -13, 13, -8, -13, 8, 18, 14, 19, -14, -1,
    -22, 6, -8, 4, 11, -16, 5, -4, -20, -6, -1, -1, 0, -3, -2, -9, 0, -6, 4, -10, 4, 4, 9, -2,
    15, 8, -10, -24, -16, 21, -4, 10, -7, -12, -22, -8, -16, -16, 13, 3, -14, 10, -13, 6, -26, 2, 2, -6,
    -15, 22, 16, -12, -13, -8, 15, -6, -10, -1, -2, -8, -11, -5, 6, 3, -17, 8, 6, 1, 15, 14, -7, 23,
    -3, 5, -5, 14, -16, -6, -19, 15, 5, 3, -17, -27, -1, 9, -22, 6, 5, 7, -11, 9, -15, 6, -1, 14,
    21, 15, -8, 12, 1, -2, -28, -28, 0, 14, 8, 2, 26, 10, 28, -5, 3, 11, 1, 8, -6, 1, -4, 2,
    19, 13, -11, -6, -1, 10, 13, 17
};
static const dnnl_dims_t strides = {1, 1};
static const dnnl_dims_t dilates = {0, 0};
static const dnnl_dims_t pads_begin = {0, 0};
static const dnnl_dims_t pads_end = {0, 0};

int main(void) {
    setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_VNNI", 0);
    CHECK(dnnl_engine_create(&engine, dnnl_cpu, 0));
    CHECK(dnnl_stream_create(&stream, engine, 0));
    dnnl_memory_desc_t src, src_plain;
    CHECK(dnnl_memory_desc_create_with_strides(&src_plain, 4, src_dims, dnnl_s8, src_strides));
    src = src_plain;
    dnnl_memory_desc_t weights, weights_plain;
    CHECK(dnnl_memory_desc_create_with_strides(&weights_plain, 4, weights_dims, dnnl_s8, weights_strides));
    CHECK(dnnl_memory_desc_create_with_tag(&weights, 4, weights_dims, dnnl_s8, dnnl_format_tag_any));
    dnnl_memory_desc_t dst, dst_plain;
    CHECK(dnnl_memory_desc_create_with_strides(&dst_plain, 4, dst_dims, dnnl_f32, dst_strides));
    dst = dst_plain;
    dnnl_primitive_desc_t pd;
    CHECK(dnnl_convolution_forward_primitive_desc_create(&pd, engine, dnnl_forward_inference, dnnl_convolution_direct, src, weights, NULL, dst, strides, dilates, pads_begin, pads_end, NULL));
    const char *found, *wanted = "x64:gemm_s8s8s32";
    for (;;) {
        CHECK(dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &found));
        if (strncmp(found, wanted, strlen(wanted)) == 0) break;
        if (dnnl_primitive_desc_next_impl(pd) == dnnl_success) continue;
        printf("not offered: %s\n", wanted);
        return 2;
    }
    dnnl_exec_arg_t args[3];
    dnnl_memory_t src_memory = memory_of(dnnl_primitive_desc_query_md(pd, dnnl_query_src_md, 0), 0);
    for (int64_t n = 0; n < (int64_t)(sizeof(src_data) / sizeof(double)); n++)
        put(dnnl_s8, bytes_of(src_memory), place(n, 4, src_dims, src_strides), src_data[n]);
    args[0] = (dnnl_exec_arg_t){DNNL_ARG_SRC, src_memory};
    dnnl_memory_t weights_memory = memory_of(dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0), 0);
    dnnl_memory_t weights_staged = memory_of(weights_plain, 0);
    for (int64_t n = 0; n < (int64_t)(sizeof(weights_data) / sizeof(double)); n++)
        put(dnnl_s8, bytes_of(weights_staged), place(n, 4, weights_dims, weights_strides), weights_data[n]);
    if (!reorder(weights_staged, weights_memory, "jit:uni")) { printf("no reorder is offered: jit:uni\n"); return 2; }
    args[1] = (dnnl_exec_arg_t){DNNL_ARG_WEIGHTS, weights_memory};
    dnnl_memory_t dst_memory = memory_of(dnnl_primitive_desc_query_md(pd, dnnl_query_dst_md, 0), 0);
    args[2] = (dnnl_exec_arg_t){DNNL_ARG_DST, dst_memory};
    dnnl_primitive_t made;
    CHECK(dnnl_primitive_create(&made, pd));
    CHECK(dnnl_primitive_execute(made, stream, 3, args));
    CHECK(dnnl_stream_wait(stream));
    int wrong = 0, all = (int)(sizeof(expected) / sizeof(double));
    for (int n = 0; n < all; n++) {
        int64_t at = place(n, 4, dst_dims, dst_strides);
        double got = get(dnnl_f32, bytes_of(dst_memory), at);
        if (fabs(got - expected[n]) <= 0.0001 + 1e-5 * fabs(expected[n])) continue;
        if (wrong++ == 0) printf("element %d: %g, expected %g\n", n, got, expected[n]);
    }
    printf("%s: %d of %d elements wrong\n", found, wrong, all);
    return wrong != 0;
}
