/* oneDNN, resampling_forward/stray-ones.

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


static const dnnl_dims_t src_dims = {1, 8, 4, 1};
static const dnnl_dims_t src_strides = {32, 1, 8, 1};
static const dnnl_dims_t dst_dims = {1, 8, 7, 2};
static const dnnl_dims_t dst_strides = {112, 1, 16, 8};
static const double src_data[] = {
    2, 1, 0, -2, -1, -3, -3, -3, -2, 2, 1, 3, 0, 1, 3, 2, 1, 0, 0, 3, -2, 2, 1, -3,
    -1, 3, 0, -3, 2, 2, 2, -2
};
static const double expected[] = {
    2, 2, 1.64285714, 1.64285714, 1.07142857, 1.07142857, 0.5, 0.5, -0.142857143, -0.142857143, -1.28571429, -1.28571429, -2, -2, -1, -1, -1.71428571, -1.71428571, -2.85714286, -2.85714286, -3, -3, -3, -3,
    -3, -3, -3, -3, -2, -2, -0.571428571, -0.571428571, 1.71428571, 1.71428571, 1.5, 1.5, 1.14285714, 1.14285714, 2.28571429, 2.28571429, 3, 3, 0, 0, 0.357142857, 0.357142857, 0.928571429, 0.928571429,
    2, 2, 2.92857143, 2.92857143, 2.35714286, 2.35714286, 2, 2, 1, 1, 0.642857143, 0.642857143, 0.0714285714, 0.0714285714, 0, 0, 0.214285714, 0.214285714, 1.92857143, 1.92857143, 3, 3, -2, -2,
    -0.571428571, -0.571428571, 1.71428571, 1.71428571, 1.5, 1.5, 0.714285714, 0.714285714, -1.57142857, -1.57142857, -3, -3, -1, -1, 0.428571429, 0.428571429, 2.71428571, 2.71428571, 1.5, 1.5, -0.214285714, -0.214285714, -1.92857143, -1.92857143,
    -3, -3, 2, 2, 2, 2, 2, 2, 2, 2, 1.71428571, 1.71428571, -0.571428571, -0.571428571, -2, -2
};

int main(void) {
    CHECK(dnnl_engine_create(&engine, dnnl_cpu, 0));
    CHECK(dnnl_stream_create(&stream, engine, 0));
    dnnl_memory_desc_t src, src_plain;
    CHECK(dnnl_memory_desc_create_with_strides(&src_plain, 4, src_dims, dnnl_f32, src_strides));
    src = src_plain;
    dnnl_memory_desc_t dst, dst_plain;
    CHECK(dnnl_memory_desc_create_with_strides(&dst_plain, 4, dst_dims, dnnl_f32, dst_strides));
    dst = dst_plain;
    dnnl_primitive_desc_t pd;
    CHECK(dnnl_resampling_forward_primitive_desc_create(&pd, engine, dnnl_forward_inference, dnnl_resampling_linear, NULL, src, dst, NULL));
    const char *found, *wanted = "";
    for (;;) {
        CHECK(dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &found));
        if (strncmp(found, wanted, strlen(wanted)) == 0) break;
        if (dnnl_primitive_desc_next_impl(pd) == dnnl_success) continue;
        printf("not offered: %s\n", wanted);
        return 2;
    }
    dnnl_exec_arg_t args[2];
    dnnl_memory_t src_memory = memory_of(dnnl_primitive_desc_query_md(pd, dnnl_query_src_md, 0), 0);
    for (int64_t n = 0; n < (int64_t)(sizeof(src_data) / sizeof(double)); n++)
        put(dnnl_f32, bytes_of(src_memory), place(n, 4, src_dims, src_strides), src_data[n]);
    args[0] = (dnnl_exec_arg_t){DNNL_ARG_SRC, src_memory};
    dnnl_memory_t dst_memory = memory_of(dnnl_primitive_desc_query_md(pd, dnnl_query_dst_md, 0), 0);
    args[1] = (dnnl_exec_arg_t){DNNL_ARG_DST, dst_memory};
    dnnl_primitive_t made;
    CHECK(dnnl_primitive_create(&made, pd));
    CHECK(dnnl_primitive_execute(made, stream, 2, args));
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
