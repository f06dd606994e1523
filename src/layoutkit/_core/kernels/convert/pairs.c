/* Packed pairs, integers of 4 bits two to a byte, to bytes and back; see lk_packed in pairs.h.
 *
 *   unpack   dst[i*d0 + j] = element at + i*s0 + j*s1 of src     i < n0, j < n1; a sign is extended by (x ^ 8) - 8
 *   pack     element j of dst = src[j], saturated                j < n1
 *
 * Contiguous elements are unpacked by vectors of 16 or 8 bytes, the last of which begins in the one before it. gcc
 * vectorizes the loops that pack: signed bytes saturate as unsigned ones once their upper bit is flipped, which keeps
 * their order.
 * Edges: a run that begins or ends within a byte has that element taken alone. Of the last byte of an odd number of
 * elements the upper half is not read, and written as 0.
 */
#include "common/vector.h"
#include "pairs.h"

#include <string.h>

enum { PART_BYTES = 1024 }; /* saturated at once */

LK_INLINE uint8_t element(const char *s, int64_t at, uint8_t sign)
{
    const uint8_t x = (uint8_t)((uint8_t)s[at >> 1] >> 4 * (at & 1)) & 15;
    return (uint8_t)((x ^ sign) - sign);
}

typedef uint8_t sixteen __attribute__((vector_size(16), aligned(1), may_alias));

/* The elements of n = 8 or 16 bytes. */
LK_INLINE void unpack_vector(uint8_t *d, const uint8_t *s, uint8_t sign, const int n)
{
    const sixteen first = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23};
    const sixteen second = {8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    sixteen x = {};
    memcpy(&x, s, n);
    const sixteen low = ((x & 15) ^ sign) - sign, high = ((x >> 4) ^ sign) - sign;
    *(sixteen *)d = __builtin_shuffle(low, high, first);
    if (n == 16)
        *(sixteen *)(d + 16) = __builtin_shuffle(low, high, second);
}

/* n elements that follow one another. */
LK_INLINE void unpack_run(uint8_t *restrict d, const char *src, int64_t at, int64_t n, uint8_t sign)
{
    if (n > 0 && at & 1) {
        *d++ = element(src, at++, sign);
        n--;
    }
    const uint8_t *s = (const uint8_t *)src + (at >> 1);
    const int64_t bytes = n / 2;
    for (int64_t i = 0; i + 16 <= bytes; i += 16)
        unpack_vector(d + 2 * i, s + i, sign, 16);
    if (bytes > 16 && bytes % 16)
        unpack_vector(d + 2 * bytes - 32, s + bytes - 16, sign, 16);
    if (bytes >= 8 && bytes < 16)
        unpack_vector(d, s, sign, 8);
    if (bytes > 8 && bytes < 16)
        unpack_vector(d + 2 * bytes - 16, s + bytes - 8, sign, 8);
    for (int64_t i = bytes >= 8 ? 2 * bytes : 0; i < n; i++)
        d[i] = element((const char *)s, i, sign);
}

void LK_NAME(unpack_x4)(const lk_packed *c)
{
    const uint8_t sign = c->is_signed ? 8 : 0;
    for (int64_t i = 0; i < c->n0; i++) {
        const int64_t at = c->at + i * c->s0;
        uint8_t *d = (uint8_t *)c->dst + i * c->d0;
        if (c->s1 == 1) {
            unpack_run(d, c->src, at, c->n1, sign);
            continue;
        }
        for (int64_t j = 0; j < c->n1; j++)
            d[j] = element(c->src, at + j * c->s1, sign);
    }
}

void LK_NAME(pack_x4)(const lk_packed *c)
{
    const uint8_t flip = c->is_signed ? 128 : 0, least = c->is_signed ? 120 : 0, most = c->is_signed ? 135 : 15;
    uint8_t x[PART_BYTES];
    for (int64_t at = 0, n; at < c->n1; at += n) {
        const uint8_t *restrict s = (const uint8_t *)c->src + at;
        uint8_t *restrict d = (uint8_t *)c->dst + at / 2;
        n = c->n1 - at < PART_BYTES ? c->n1 - at : PART_BYTES;
        for (int64_t j = 0; j < n; j++) {
            const uint8_t y = s[j] ^ flip, above = y > most ? most : y;
            x[j] = ((above < least ? least : above) ^ flip) & 15;
        }
        for (int64_t i = 0; i < n / 2; i++)
            d[i] = (uint8_t)(x[2 * i] | x[2 * i + 1] << 4);
        if (n & 1)
            d[n / 2] = x[n - 1];
    }
}

const lk_kernel LK_NAME(lk_rows_pairs)[] = {
    LK_ROW(LK_UNPACK, unpack_x4, "x4", 2 * LK_VB, 0, 0),
    LK_ROW(LK_PACK, pack_x4, "x4", 2 * LK_VB, 0, 0),
    LK_LAST_ROW,
};
