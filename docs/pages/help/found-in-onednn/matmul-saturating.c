/* oneDNN, matmul/saturating.

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


static const dnnl_dims_t src_dims = {4, 8};
static const dnnl_dims_t src_strides = {8, 1};
static const dnnl_dims_t weights_dims = {8, 8};
static const dnnl_dims_t weights_strides = {8, 1};
static const dnnl_dims_t dst_dims = {4, 8};
static const dnnl_dims_t dst_strides = {8, 1};
static const double src_data[] = {
    247, 235, 228, 215, 217, 202, 204, 200, 209, 245, 236, 251, 228, 233, 254, 240, 235, 230, 231, 252, 215, 245, 237, 200,
    222, 248, 231, 201, 242, 240, 247, 209
};
static const double weights_data[] = {
    102, 124, 100, 115, 102, 108, 113, 111, 111, 100, 100, 103, 100, 118, 114, 118, 107, 117, 121, 110, 112, 127, 122, 127,
    110, 119, 126, 118, 123, 119, 119, 110, 124, 103, 116, 120, 123, 114, 110, 108, 111, 113, 120, 124, 102, 126, 114, 110,
    118, 116, 107, 109, 120, 116, 114, 109, 121, 110, 109, 124, 107, 106, 119, 117
};
static const double expected[] = {
    196927, 197230, 195918, 201184, 193850, 204001, 202056, 199045, 214522, 213574, 213328, 218546, 211093, 221577, 219366, 215711, 207958, 208477, 207702, 212674, 205113, 215917, 213343, 209685,
    208082, 206962, 206359, 211841, 204288, 215130, 212468, 209265
};

int main(void) {
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 0);
    CHECK(dnnl_engine_create(&engine, dnnl_cpu, 0));
    CHECK(dnnl_stream_create(&stream, engine, 0));
    dnnl_memory_desc_t src, src_plain;
    CHECK(dnnl_memory_desc_create_with_strides(&src_plain, 2, src_dims, dnnl_u8, src_strides));
    src = src_plain;
    dnnl_memory_desc_t weights, weights_plain;
    CHECK(dnnl_memory_desc_create_with_strides(&weights_plain, 2, weights_dims, dnnl_s8, weights_strides));
    weights = weights_plain;
    dnnl_memory_desc_t dst, dst_plain;
    CHECK(dnnl_memory_desc_create_with_strides(&dst_plain, 2, dst_dims, dnnl_f32, dst_strides));
    dst = dst_plain;
    dnnl_primitive_desc_t pd;
    CHECK(dnnl_matmul_primitive_desc_create(&pd, engine, src, weights, NULL, dst, NULL));
    const char *found, *wanted = "";
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
        put(dnnl_u8, bytes_of(src_memory), place(n, 2, src_dims, src_strides), src_data[n]);
    args[0] = (dnnl_exec_arg_t){DNNL_ARG_SRC, src_memory};
    dnnl_memory_t weights_memory = memory_of(dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0), 0);
    for (int64_t n = 0; n < (int64_t)(sizeof(weights_data) / sizeof(double)); n++)
        put(dnnl_s8, bytes_of(weights_memory), place(n, 2, weights_dims, weights_strides), weights_data[n]);
    args[1] = (dnnl_exec_arg_t){DNNL_ARG_WEIGHTS, weights_memory};
    dnnl_memory_t dst_memory = memory_of(dnnl_primitive_desc_query_md(pd, dnnl_query_dst_md, 0), 0);
    args[2] = (dnnl_exec_arg_t){DNNL_ARG_DST, dst_memory};
    dnnl_primitive_t made;
    CHECK(dnnl_primitive_create(&made, pd));
    CHECK(dnnl_primitive_execute(made, stream, 3, args));
    CHECK(dnnl_stream_wait(stream));
    int wrong = 0, all = (int)(sizeof(expected) / sizeof(double));
    for (int n = 0; n < all; n++) {
        int64_t at = place(n, 2, dst_dims, dst_strides);
        double got = get(dnnl_f32, bytes_of(dst_memory), at);
        if (fabs(got - expected[n]) <= 0.0001 + 1e-5 * fabs(expected[n])) continue;
        if (wrong++ == 0) printf("element %d: %g, expected %g\n", n, got, expected[n]);
    }
    printf("%s: %d of %d elements wrong\n", found, wrong, all);
    return wrong != 0;
}
