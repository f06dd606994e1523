/* A tile unit, as eight operations: those of Intel's AMX (palette 1), or with LK_EMULATED_TILES the same in plain C, so
 * that kernels for tiles are tested on every machine.
 *
 *   TILES_CONFIGURE(config)          rows and bytes of a row of each tile; all tiles become zeros
 *   TILES_RELEASE()
 *   TILES_FENCE()                    what is stored before it is there for loads after it: compilers are not told that
 *                                    these read memory
 *   TILE_ZERO(t)                     t, c, a, b: numbers of tiles, literals
 *   TILE_LOAD(t, p, pitch)           row i from p + i * pitch; the rest of the tile becomes 0
 *   TILE_STORE(t, p, pitch)
 *   TILE_BF16(c, a, b)               c[i][j] += sum over k of a[i][k] . b[k][j], of f32, pairs of bf16
 *   TILE_U8S8(c, a, b), TILE_S8S8    of s32, quads of u8 or s8 of a and s8 of b, modulo 2^32
 *
 * A tile has at most 16 rows of 64 bytes. The even and the odd products of bf16 are summed for themselves, by FMA and from
 * 0, added, and then added to c; denormal numbers count as 0, results too; all of it rounds to the nearest, even.
 */
#ifndef LAYOUTKIT_TILES_H
#define LAYOUTKIT_TILES_H

#include <stdint.h>

enum { TILE_COUNT = 8, TILE_ROWS = 16, TILE_ROW_BYTES = 64 };

typedef struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} __attribute__((aligned(64))) tiles_config;

#ifndef LK_EMULATED_TILES
#include <immintrin.h>
#define TILES_CONFIGURE(config) _tile_loadconfig(config)
#define TILES_RELEASE() _tile_release()
#define TILES_FENCE() __asm__ volatile("" ::: "memory")
#define TILE_ZERO(t) _tile_zero(t)
#define TILE_LOAD(t, p, pitch) _tile_loadd(t, p, pitch)
#define TILE_STORE(t, p, pitch) _tile_stored(t, p, pitch)
#define TILE_BF16(c, a, b) _tile_dpbf16ps(c, a, b)
#define TILE_U8S8(c, a, b) _tile_dpbusd(c, a, b)
#define TILE_S8S8(c, a, b) _tile_dpbssd(c, a, b)
#else
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TILES_CONFIGURE(config) tiles_configure(config)
#define TILES_RELEASE() tiles_release()
#define TILES_FENCE() ((void)0)
#define TILE_ZERO(t) memset(row_of(t, 0), 0, TILE_ROWS * TILE_ROW_BYTES)
#define TILE_LOAD(t, p, pitch) tile_load(t, (const char *)(p), pitch)
#define TILE_STORE(t, p, pitch) tile_store(t, (char *)(p), pitch)
#define TILE_BF16(c, a, b) tile_bf16(c, a, b)
#define TILE_U8S8(c, a, b) tile_bytes(c, a, b, 0)
#define TILE_S8S8(c, a, b) tile_bytes(c, a, b, 1)

static _Thread_local struct {
    tiles_config config; /* of palette 0: none */
    char row[TILE_COUNT][TILE_ROWS][TILE_ROW_BYTES];
} unit;

/* What the processor would refuse as an undefined instruction. */
static inline void tile_require(int holds)
{
    if (!holds)
        abort();
}

static inline char *row_of(int t, int i)
{
    tile_require(unit.config.palette == 1 && unit.config.rows[t] > 0);
    return unit.row[t][i];
}

static inline void tiles_configure(const tiles_config *config)
{
    for (int t = 0; t < 16; t++)
        tile_require(config->rows[t] <= (t < TILE_COUNT ? TILE_ROWS : 0) && config->row_bytes[t] <= TILE_ROW_BYTES
                     && !config->rows[t] == !config->row_bytes[t]);
    tile_require(config->palette == 1 && config->start_row == 0);
    memset(&unit, 0, sizeof unit);
    unit.config = *config;
}

static inline void tiles_release(void) { memset(&unit, 0, sizeof unit); }

static inline void tile_load(int t, const char *p, int64_t pitch)
{
    TILE_ZERO(t);
    for (int i = 0; i < unit.config.rows[t]; i++)
        memcpy(row_of(t, i), p + i * pitch, unit.config.row_bytes[t]);
}

static inline void tile_store(int t, char *p, int64_t pitch)
{
    for (int i = 0; i < unit.config.rows[t]; i++)
        memcpy(p + i * pitch, row_of(t, i), unit.config.row_bytes[t]);
}

/* The shapes of a product: rows of c and steps of k; columns are those of c. */
static inline int tile_steps(int c, int a, int b)
{
    const tiles_config *s = &unit.config;
    tile_require(s->palette == 1 && c != a && c != b && a != b && s->rows[a] == s->rows[c]
                 && s->row_bytes[a] == 4 * s->rows[b] && s->row_bytes[b] == s->row_bytes[c]);
    return s->rows[b];
}

static inline float flushed(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }

static inline float of_bf16(const char *p)
{
    uint16_t half;
    memcpy(&half, p, 2);
    const uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, 4);
    return flushed(x);
}

static inline void tile_bf16(int c, int a, int b)
{
    const int steps = tile_steps(c, a, b);
    for (int i = 0; i < unit.config.rows[c]; i++)
        for (int j = 0; j < unit.config.row_bytes[c] / 4; j++) {
            float even = 0, odd = 0, *sum = (float *)row_of(c, i) + j;
            for (int k = 0; k < steps; k++) {
                const char *x = row_of(a, i) + 4 * k, *y = row_of(b, k) + 4 * j;
                even = flushed(fmaf(of_bf16(x), of_bf16(y), even));
                odd = flushed(fmaf(of_bf16(x + 2), of_bf16(y + 2), odd));
            }
            *sum = flushed(flushed(*sum) + flushed(even + odd));
        }
}

static inline void tile_bytes(int c, int a, int b, int a_signed)
{
    const int steps = tile_steps(c, a, b);
    for (int i = 0; i < unit.config.rows[c]; i++)
        for (int j = 0; j < unit.config.row_bytes[c] / 4; j++) {
            uint32_t *sum = (uint32_t *)row_of(c, i) + j;
            for (int k = 0; k < 4 * steps; k++) {
                const char x = row_of(a, i)[k];
                *sum += (uint32_t)((a_signed ? (int8_t)x : (uint8_t)x) * (int8_t)row_of(b, k / 4)[4 * j + k % 4]);
            }
        }
}
#endif

#endif
