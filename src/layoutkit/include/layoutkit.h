/* layoutkit from C and C++: plan once, ask for the workspace, execute without Python.
 *
 *   layoutkit_reorder r = {sizeof r};                 the size comes first: what a caller does not know is zero
 *   r.src = "NCHW", r.dst = "nChw16c", r.rank = 4, r.shape = shape, r.itemsize = 4, r.threads = 1;
 *   layoutkit_plan *plan;
 *   if (lk->plan_reorder(&r, &plan) != LAYOUTKIT_OK) puts(lk->last_error());
 *   lk->execute(plan, x, y, workspace, lk->workspace(plan));     any thread, no GIL, as often as you like
 *   lk->free(plan);
 *
 * The functions come in a table from a capsule, as numpy's do: `layoutkit_import()` after Py_Initialize. Making and
 * freeing a plan takes the GIL, executing never does. A plan is not changed by executing it: many threads may execute
 * one at the same time, each with a workspace of its own. With threads == 1 it starts no threads and may run inside
 * any parallel region. In the child of a fork, fork(2) included, every plan runs on one thread; the child may plan too
 * where Python survives the fork (os.fork, or PyOS_AfterFork_Child after fork).
 */
#ifndef LAYOUTKIT_H
#define LAYOUTKIT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Fields are only ever added, at the end of a struct; another number means that more than that has changed. */
#define LAYOUTKIT_ABI_VERSION 1

enum {
    LAYOUTKIT_OK = 0,
    LAYOUTKIT_ERROR_VALUE = 1,     /* layouts, shapes, sizes or pointers do not fit */
    LAYOUTKIT_ERROR_TYPE = 2,      /* an element size that is not moved, .. */
    LAYOUTKIT_ERROR_MEMORY = 3,
    LAYOUTKIT_ERROR_WORKSPACE = 4, /* too small */
    LAYOUTKIT_ERROR_OTHER = 5
};

typedef struct layoutkit_plan layoutkit_plan;

/* Moves a tensor from one memory format to another. Strides are in bytes, one per axis of the array that holds the
 * tensor; NULL: that array is contiguous, or has the explicit strides of its format. */
typedef struct {
    size_t size;           /* sizeof(layoutkit_reorder) */
    const char *src, *dst; /* formats: "NCHW", "nChw16c", .. */
    int rank;
    const int64_t *shape; /* logical, `rank` numbers */
    int itemsize;         /* 1, 2, 4, 8 or 16 bytes */
    const int64_t *src_strides, *dst_strides;
    const void *pad; /* the element that pads are set to; NULL: zero bytes */
    int threads;     /* at most, up to four times the cores; 0: as many as layoutkit would use */
} layoutkit_reorder;

/* Convolves tensors, of float32 unless `dtype` says otherwise. Spatial numbers are given for the last `spatial` of
 * depth, height, width. */
typedef struct {
    size_t size;                               /* sizeof(layoutkit_convolution) */
    int spatial;                               /* 1, 2 or 3 */
    const char *layout, *out_layout;           /* out_layout NULL: as layout; both NULL: NCW, NCHW, NCDHW */
    const char *filter_layout;                 /* NULL: OIW, OIHW, OIDHW; transposed IOW, IOHW, IODHW */
    int64_t n, in_channels, out_channels, groups; /* groups 0: 1 */
    int64_t in[3], kernel[3];
    int64_t stride[3], dilation[3]; /* 0: 1 */
    int64_t before[3], after[3];    /* padding */
    const void *filter;             /* contiguous in filter_layout; packed, not kept; of integers int8_t */
    const void *bias;               /* out_channels numbers of the sums (float, double, int32_t), or NULL */
    const int64_t *src_strides, *dst_strides; /* as of a reorder; both arrays begin at whole elements */
    const char *algorithm;          /* NULL: "auto" */
    const char *accuracy;           /* "reproducible", "strict", "fast"; NULL: "standard" */
    int threads;
    /* Of src, and of the filter unless it is of integers: "float32", "float64", "bfloat16", "float16", "uint8", "int8";
     * of dst these or "int32". NULL: float32; as src, of integers int32. */
    const char *dtype, *out_dtype;
    const float *scale; /* out_channels floats, by which sums of integers are multiplied; or NULL */
    int zero_point, out_zero_point; /* of integers: of src, which is also its padding, and of dst */
    float out_scale;                /* of dst; 0: 1 */
    /* Not 0: a transposed convolution, as torch's. The filter has out_channels / groups outputs of in_channels inputs, and
     * none of them Inf or NaN; output_padding is added to the size of dst. */
    int transposed;
    int64_t output_padding[3];
} layoutkit_convolution;

typedef struct {
    size_t size; /* of this table */
    int abi_version;
    int (*plan_reorder)(const layoutkit_reorder *, layoutkit_plan **);
    int (*plan_convolution)(const layoutkit_convolution *, layoutkit_plan **);
    int64_t (*workspace)(const layoutkit_plan *); /* bytes that an execution needs, any alignment */
    int64_t (*dst_bytes)(const layoutkit_plan *); /* of a contiguous destination */
    int (*threads)(const layoutkit_plan *); /* that an execution uses at most: 1 in the child of a fork */
    int (*execute)(const layoutkit_plan *, const void *src, void *dst, void *workspace, int64_t workspace_bytes);
    void (*free)(layoutkit_plan *);   /* NULL is nothing */
    const char *(*last_error)(void);  /* of this thread; valid until its next error */
} layoutkit_api;

#define LAYOUTKIT_CAPSULE "layoutkit.api._C_API"

#ifdef Py_PYTHON_H
/* The table, or NULL with a Python exception set. Holds the GIL. */
static inline const layoutkit_api *layoutkit_import(void)
{
    const layoutkit_api *api = NULL;
    PyObject *module = PyImport_ImportModule("layoutkit.api");
    if (module) {
        api = (const layoutkit_api *)PyCapsule_Import(LAYOUTKIT_CAPSULE, 0);
        Py_DECREF(module);
    }
    if (api && (api->abi_version != LAYOUTKIT_ABI_VERSION || api->size < sizeof(layoutkit_api))) {
        PyErr_Format(PyExc_ImportError, "layoutkit: compiled for ABI version %d, installed is %d",
                     LAYOUTKIT_ABI_VERSION, api->abi_version);
        api = NULL;
    }
    return api;
}
#endif

#ifdef __cplusplus
}
#endif
#endif
