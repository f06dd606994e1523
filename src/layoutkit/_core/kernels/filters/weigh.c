/* weigh_<type>, widen_<type>, cast_<type>: weighted sums of rows, and rows of other elements; see filters.h.
 *
 *   y[i] = end(sum over t of weight[t] * x[t][i])
 *
 * A block of vectors is summed over all rows, so that sums stay in registers and each row is one pointer. What becomes of
 * sums is a second look at the row, which is in L1 then.
 * Edges: the last vector of a row overlaps the one before; a row shorter than a vector is loaded and stored by its elements.
 */
#include "bands.h"
#include "sections.h"
#include "stores.h"
#include "sums.h"

LK_INLINE vf ended(vf sum, const int end, const int to, const real size)
{
    if (end == LK_END_CAST) {
        if (size != 1)
            sum /= size;
        return cast_to(sum, to);
    }
    /* The quotient of a magnitude and a half is not near a whole number. */
    const vi sign = (vi)-(vf){} & (vi)sum, magnitude = (vi)sum ^ sign;
    return (vf)((vi)whole(((vf)magnitude + (real)0.5) * (1 / size)) | sign);
}

/* What becomes of a row of sums, while it is in L1. */
LK_INLINE void end_row(const lk_combine *p, const int end, const int to)
{
    int64_t i = 0;
    for (; i <= p->count - LK_LANES; i += LK_LANES) {
        vf *const y = (vf *)(p->y + i * LK_ITEM);
        *y = ended(*y, end, to, (real)p->size);
    }
    if (i < p->count) {
        const int n = (int)(p->count - i);
        store_some(p->y + i * LK_ITEM, ended(load_some(p->y + i * LK_ITEM, n, LK_OWN), end, to, (real)p->size), n, LK_OWN);
    }
}

static __attribute__((noinline)) void end_any_row(const lk_combine *p)
{
    if (p->end == LK_END_WHOLE)
        end_row(p, LK_END_WHOLE, 0);
    else if (p->end == LK_END_CAST)
        switch (p->to) {
        case LK_U8: case LK_BOOL: end_row(p, LK_END_CAST, LK_U8); break;
        case LK_S8: end_row(p, LK_END_CAST, LK_S8); break;
        case LK_U16: end_row(p, LK_END_CAST, LK_U16); break;
        case LK_S16: end_row(p, LK_END_CAST, LK_S16); break;
        case LK_U32: end_row(p, LK_END_CAST, LK_U32); break;
        case LK_S32: end_row(p, LK_END_CAST, LK_S32); break;
        case LK_S64: end_row(p, LK_END_CAST, LK_S64); break;
        }
}

/* Vectors from element i on. */
LK_INLINE void weigh_vectors(
    const lk_combine *p, int64_t i, real factor, const int vectors, const int e, const int kind, int how)
{
    vf sum[MOST_VECTORS];
    if (p->ahead)
        prefetch_vectors(p->ahead + i * bytes_of(e), vectors);
    weighed_sums(p, sum, i, vectors, LK_LANES, e, kind);
#pragma GCC unroll 4
    for (int k = 0; k < vectors; k++) {
        sum[k] *= factor;
        put_vector(p->y + i * LK_ITEM + k * LK_VB, &sum[k], how);
    }
}

LK_INLINE void weigh_rows(const lk_combine *p, const int e, const int kind)
{
    const real factor = factor_of(p);
    const int stream = p->stream && p->end <= LK_END_MEAN;
#define WEIGH_VECTORS(i, vectors, how) weigh_vectors(p, i, factor, vectors, e, kind, how)
    STORE_VECTORS(p->y, p->count, LK_ITEM, 4, stream, WEIGH_VECTORS);
#undef WEIGH_VECTORS
}

/* Rows that are shorter than a vector. */
static __attribute__((noinline)) void weigh_short(const lk_combine *p)
{
    const int n = (int)p->count;
    vf sum;
#define SHORT(e) weighed_sums(p, &sum, 0, 1, n, e, p->kind)
    LK_OF_ELEMENT(p->element, SHORT)
    store_some(p->y, sum * factor_of(p), n, LK_OWN);
}

static vf load_any(const char *p, int n, int element)
{
#define LOAD_SOME(e) return load_some(p, n, e)
    LK_OF_ELEMENT(element, LOAD_SOME)
    return (vf){};
}

static __attribute__((noinline)) void band_short(const lk_combine *p)
{
    const real *weight = p->weight;
    const int64_t half = p->taps / 2;
    const int n = (int)p->count, e = p->element;
    for (int64_t r = 0; r < p->rows; r++) {
        const char *const *x = p->x + r, *const *last = x + p->taps - 1;
        vf sum = (vf){} - (real)0.0;
        if (p->kind == LK_WEIGH_BAND_EACH) {
            for (int64_t t = 0; t < p->taps; t++)
                if (p->fixed[t] >> r & 1)
                    sum = add_product(weight[LK_BAND_ROWS * t + r] - (vf){}, load_any(p->x[t], n, e), sum);
        } else if (p->kind == LK_WEIGH_BAND) {
            for (int64_t t = 0; t < p->taps; t++)
                sum = fused(weight[t] - (vf){}, load_any(x[t], n, e), sum);
        } else {
            sum = load_any(x[half], n, e) * weight[0];
            LK_SEPARATE(sum);
            for (int64_t t = 0; t < half; t++) {
                const vf a = load_any(x[t], n, e), b = load_any(last[-t], n, e);
                sum = add_product(weight[t + 1] - (vf){}, p->kind == LK_WEIGH_BAND_SUMS ? a + b : a - b, sum);
            }
        }
        store_some(p->y + r * p->y_row, sum * factor_of(p), n, LK_OWN);
    }
}

LK_INLINE void weigh_elements(const lk_combine *p, const int e)
{
    switch (p->kind) {
    case LK_WEIGH_EACH: weigh_rows(p, e, LK_WEIGH_EACH); break;
    case LK_WEIGH_SUMS: weigh_rows(p, e, LK_WEIGH_SUMS); break;
    case LK_WEIGH_DIFFERENCES: weigh_rows(p, e, LK_WEIGH_DIFFERENCES); break;
    case LK_WEIGH_PLAIN: weigh_rows(p, e, LK_WEIGH_PLAIN); break;
    case LK_WEIGH_BAND: band_elements(p, e, LK_WEIGH_BAND); break;
    case LK_WEIGH_BAND_SUMS: band_elements(p, e, LK_WEIGH_BAND_SUMS); break;
    case LK_WEIGH_BAND_DIFFERENCES: band_elements(p, e, LK_WEIGH_BAND_DIFFERENCES); break;
    }
}

/* `p` is read where it is: its fields were just written, and a copy by vectors would wait for all of them. */
void LK_NAME(LK_TYPED(weigh))(const lk_combine *restrict p)
{
#define WEIGH(e) weigh_elements(p, e)
    if (p->kind == LK_WEIGH_SECTIONS) {
        weigh_sections(p);
        return;
    }
    if (p->count < LK_LANES && p->kind >= LK_WEIGH_BAND)
        band_short(p);
    else if (p->count < LK_LANES)
        weigh_short(p);
    else if (p->kind == LK_WEIGH_BAND_EACH)
        band_each(p);
    else
        LK_OF_ELEMENT(p->element, WEIGH)
    if (p->end > LK_END_MEAN) {
        lk_combine row = *p;
        for (int64_t r = 0; r < (p->kind >= LK_WEIGH_BAND ? p->rows : 1); r++, row.y += p->y_row)
            end_any_row(&row);
    }
}

LK_INLINE void widen_row(const lk_cast_row *p, const int e)
{
    int64_t i = 0;
    for (; i <= p->count - LK_LANES; i += LK_LANES)
        *(vf *)(p->y + i * LK_ITEM) = load_elements(p->x + i * bytes_of(e), e);
    if (i < p->count)
        store_some(p->y + i * LK_ITEM, load_some(p->x + i * bytes_of(e), (int)(p->count - i), e), (int)(p->count - i), LK_OWN);
}

void LK_NAME(LK_TYPED(widen))(const lk_cast_row *args)
{
    const lk_cast_row local = *args, *p = &local;
#define WIDEN(e) widen_row(p, e)
    LK_OF_ELEMENT(p->element, WIDEN)
}

LK_INLINE void cast_row(const lk_cast_row *p, const int e)
{
    int64_t i = 0;
    for (; i <= p->count - LK_LANES; i += LK_LANES)
        store_elements(p->y + i * bytes_of(e), *(const vf *)(p->x + i * LK_ITEM), e);
    if (i < p->count)
        store_some(p->y + i * bytes_of(e), load_some(p->x + i * LK_ITEM, (int)(p->count - i), LK_OWN), (int)(p->count - i), e);
}

void LK_NAME(LK_TYPED(cast))(const lk_cast_row *args)
{
    const lk_cast_row local = *args, *p = &local;
#define CAST(e) cast_row(p, e)
    LK_OF_ELEMENT(p->element, CAST)
}

const lk_kernel LK_ROWS(weigh)[] = {
    LK_ROW(LK_WEIGH, LK_TYPED(weigh), LK_STR(LK_KIND), LK_LANES, 0, 0),
    LK_ROW(LK_WIDEN, LK_TYPED(widen), LK_STR(LK_KIND), LK_LANES, 0, 0),
    LK_ROW(LK_CAST, LK_TYPED(cast), LK_STR(LK_KIND), LK_LANES, 0, 0),
    LK_LAST_ROW,
};
