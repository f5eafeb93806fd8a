/* oneDNN, deconvolution_forward/saturating.

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

static const dnnl_dims_t src_dims = {1, 8, 4, 4};
static const dnnl_dims_t src_strides = {128, 1, 32, 8};
static const dnnl_dims_t weights_dims = {8, 8, 1, 1};
static const dnnl_dims_t weights_strides = {8, 1, 1, 1};
static const dnnl_dims_t dst_dims = {1, 8, 4, 4};
static const dnnl_dims_t dst_strides = {128, 1, 32, 8};
static const double src_data[] = {
    247, 235, 228, 215, 217, 202, 204, 200, 209, 245, 236, 251, 228, 233, 254, 240, 235, 230, 231, 252, 215, 245, 237, 200,
    222, 248, 231, 201, 242, 240, 247, 209, 205, 248, 201, 230, 204, 216, 226, 223, 222, 201, 200, 206, 200, 237, 229, 236,
    214, 234, 242, 221, 225, 255, 245, 254, 221, 238, 253, 236, 247, 238, 239, 221, 249, 207, 232, 240, 247, 229, 221, 217,
    223, 227, 240, 249, 204, 252, 229, 220, 237, 232, 214, 218, 240, 233, 228, 218, 242, 221, 218, 249, 214, 212, 239, 234,
    202, 204, 221, 246, 222, 244, 217, 213, 244, 249, 204, 203, 237, 218, 232, 208, 248, 225, 250, 244, 239, 212, 242, 202,
    231, 222, 255, 211, 253, 205, 234, 232
};
static const double weights_data[] = {
    125, 108, 125, 118, 124, 105, 121, 126, 101, 110, 117, 102, 114, 117, 121, 125, 111, 112, 113, 126, 105, 113, 101, 111,
    126, 117, 109, 127, 116, 126, 100, 112, 123, 121, 111, 113, 111, 114, 106, 122, 102, 111, 107, 120, 120, 119, 125, 126,
    105, 103, 103, 120, 127, 125, 118, 127, 124, 100, 103, 124, 102, 127, 123, 126
};
static const double expected[] = {
    218583, 215889, 216608, 222079, 215199, 217897, 216349, 205470, 215621, 220072, 218766, 214851, 217103, 218470, 226300, 214400, 208167, 205470, 206116, 212019, 205360, 208025, 206483, 195466,
    206180, 209432, 207877, 204092, 206838, 207473, 215386, 204010, 204722, 202883, 202998, 207689, 201575, 204950, 203344, 193157, 202041, 206271, 205289, 201593, 203756, 204701, 212307, 200864,
    214862, 212114, 212374, 216947, 211168, 214112, 212350, 201729, 211205, 215963, 214962, 211759, 212875, 214201, 222303, 210272, 212078, 209204, 209726, 214776, 208242, 210991, 209589, 198416,
    208571, 213217, 211994, 208013, 210465, 211158, 219360, 207426, 213475, 210414, 211875, 217268, 210891, 213930, 211966, 201000, 211398, 215221, 213845, 209747, 212607, 212873, 220913, 208929,
    213515, 209925, 211518, 216487, 210860, 213217, 211416, 200646, 210897, 214562, 213720, 210095, 211861, 212419, 220430, 208753, 213370, 210720, 211608, 216122, 210414, 213089, 211335, 200736,
    210984, 215215, 213724, 210282, 212715, 212087, 221150, 209346
};
static const dnnl_dims_t strides = {1, 1};
static const dnnl_dims_t dilates = {0, 0};
static const dnnl_dims_t pads_begin = {0, 0};
static const dnnl_dims_t pads_end = {0, 0};

int main(void) {
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 0);
    CHECK(dnnl_engine_create(&engine, dnnl_cpu, 0));
    CHECK(dnnl_stream_create(&stream, engine, 0));
    dnnl_memory_desc_t src, src_plain;
    CHECK(dnnl_memory_desc_create_with_strides(&src_plain, 4, src_dims, dnnl_u8, src_strides));
    src = src_plain;
    dnnl_memory_desc_t weights, weights_plain;
    CHECK(dnnl_memory_desc_create_with_strides(&weights_plain, 4, weights_dims, dnnl_s8, weights_strides));
    CHECK(dnnl_memory_desc_create_with_tag(&weights, 4, weights_dims, dnnl_s8, dnnl_format_tag_any));
    dnnl_memory_desc_t dst, dst_plain;
    CHECK(dnnl_memory_desc_create_with_strides(&dst_plain, 4, dst_dims, dnnl_f32, dst_strides));
    dst = dst_plain;
    dnnl_primitive_desc_t pd;
    CHECK(dnnl_deconvolution_forward_primitive_desc_create(&pd, engine, dnnl_forward_inference, dnnl_deconvolution_direct, src, weights, NULL, dst, strides, dilates, pads_begin, pads_end, NULL));
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
        put(dnnl_u8, bytes_of(src_memory), place(n, 4, src_dims, src_strides), src_data[n]);
    args[0] = (dnnl_exec_arg_t){DNNL_ARG_SRC, src_memory};
    dnnl_memory_t weights_memory = memory_of(dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0), 0);
    dnnl_memory_t weights_staged = memory_of(weights_plain, 0);
    for (int64_t n = 0; n < (int64_t)(sizeof(weights_data) / sizeof(double)); n++)
        put(dnnl_s8, bytes_of(weights_staged), place(n, 4, weights_dims, weights_strides), weights_data[n]);
    if (!reorder(weights_staged, weights_memory, "")) { printf("no reorder is offered: \n"); return 2; }
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
