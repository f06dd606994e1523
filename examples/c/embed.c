/* A C program with Python inside: reorders and convolves through layoutkit's table of functions. In this folder:
 *
 *   python3 -m venv .venv && .venv/bin/pip install layoutkit && make PYTHON=.venv/bin/python run
 *
 * It needs a C compiler, make and the headers of Python (Debian: python3-dev).
 */
#include <Python.h>

#include <layoutkit.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 2, C = 20, H = 9, W = 7, O = 6 };

static int failed(const layoutkit_api *lk, const char *what)
{
    fprintf(stderr, "%s: %s\n", what, lk->last_error());
    return 1;
}

/* NCHW to nChw16c, twice as many channels in memory as 20 need; the pads become zero. */
static int reorder(const layoutkit_api *lk, const float *x)
{
    const int64_t shape[] = {N, C, H, W};
    layoutkit_reorder r = {sizeof r};
    r.src = "NCHW", r.dst = "nChw16c", r.rank = 4, r.shape = shape, r.itemsize = 4, r.threads = 1;
    layoutkit_plan *plan;
    if (lk->plan_reorder(&r, &plan))
        return failed(lk, "plan_reorder");
    float *y = malloc(lk->dst_bytes(plan));
    PyThreadState *state = PyEval_SaveThread(); /* executing needs no Python */
    int code = lk->execute(plan, x, y, NULL, 0);
    PyEval_RestoreThread(state);
    if (code)
        return failed(lk, "execute");
    for (int n = 0; n < N; n++)
        for (int c = 0; c < 32; c++)
            for (int p = 0; p < H * W; p++) {
                float want = c < C ? x[(n * C + c) * H * W + p] : 0;
                if (y[((n * 2 + c / 16) * H * W + p) * 16 + c % 16] != want)
                    return printf("reorder: wrong at %d %d %d\n", n, c, p), 1;
            }
    lk->free(plan);
    free(y);
    return 0;
}

static int convolution(const layoutkit_api *lk, const float *x)
{
    static float filter[O * C * 9], bias[O];
    for (int i = 0; i < O * C * 9; i++)
        filter[i] = (float)(i % 13 - 6);
    for (int i = 0; i < O; i++)
        bias[i] = (float)i;
    layoutkit_convolution s = {sizeof s};
    s.spatial = 2, s.n = N, s.in_channels = C, s.out_channels = O, s.threads = 1;
    s.in[1] = H, s.in[2] = W, s.kernel[1] = s.kernel[2] = 3;
    s.before[1] = s.before[2] = s.after[1] = s.after[2] = 1;
    s.filter = filter, s.bias = bias, s.algorithm = "direct";
    layoutkit_plan *plan;
    if (lk->plan_convolution(&s, &plan))
        return failed(lk, "plan_convolution");
    int64_t bytes = lk->workspace(plan);
    void *workspace = malloc(bytes);
    float *y = malloc(lk->dst_bytes(plan));
    if (bytes && lk->execute(plan, x, y, workspace, bytes - 1) != LAYOUTKIT_ERROR_WORKSPACE)
        return puts("a small workspace was not refused"), 1;
    if (lk->execute(plan, x, y, workspace, bytes))
        return failed(lk, "execute");
    for (int n = 0; n < N; n++)
        for (int o = 0; o < O; o++)
            for (int h = 0; h < H; h++)
                for (int w = 0; w < W; w++) {
                    double sum = bias[o];
                    for (int c = 0; c < C; c++)
                        for (int k = 0; k < 9; k++) {
                            int i = h + k / 3 - 1, j = w + k % 3 - 1;
                            if (i >= 0 && i < H && j >= 0 && j < W)
                                sum += filter[(o * C + c) * 9 + k] * x[((n * C + c) * H + i) * W + j];
                        }
                    if (fabs(y[((n * O + o) * H + h) * W + w] - sum) > 1e-3 * (1 + fabs(sum)))
                        return printf("convolution: wrong at %d %d %d %d\n", n, o, h, w), 1;
                }
    lk->free(plan);
    free(workspace);
    free(y);
    return 0;
}

static int errors(const layoutkit_api *lk)
{
    const int64_t shape[] = {1, 2, 3, 4};
    layoutkit_plan *plan = (layoutkit_plan *)1;
    layoutkit_reorder r = {sizeof r};
    r.src = "NCHW", r.dst = "NCWW", r.rank = 4, r.shape = shape, r.itemsize = 4;
    if (lk->plan_reorder(&r, &plan) != LAYOUTKIT_ERROR_VALUE || plan)
        return puts("a bad format was not refused"), 1;
    printf("as it should be, refused: %s\n", lk->last_error());
    r.dst = "NHWC", r.itemsize = 3;
    return lk->plan_reorder(&r, &plan) != LAYOUTKIT_ERROR_TYPE || lk->execute(NULL, shape, NULL, NULL, 0) == 0;
}

int main(int argc, char **argv)
{
    PyConfig config;
    PyConfig_InitPythonConfig(&config);
    if (argc > 1) /* whose packages to use */
        PyConfig_SetBytesString(&config, &config.executable, argv[1]);
    PyStatus status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    if (PyStatus_Exception(status))
        Py_ExitStatusException(status);
    const layoutkit_api *lk = layoutkit_import();
    if (!lk)
        return PyErr_Print(), 1;
    static float x[N * C * H * W];
    for (int i = 0; i < N * C * H * W; i++)
        x[i] = (float)(i % 101 - 50);
    int code = reorder(lk, x) || convolution(lk, x) || errors(lk);
    if (Py_FinalizeEx() < 0 || code)
        return 1;
    puts("reorder and convolution: right");
    return 0;
}
