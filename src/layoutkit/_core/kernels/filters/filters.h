#ifndef LAYOUTKIT_FILTERS_H
#define LAYOUTKIT_FILTERS_H

#include "kernels.h"

/* Filters combine rows: element i of the result is made of element i of each of `taps` rows of `count` elements. A window
 * across rows has a row for each place; one along a row has the same row again and again, each time from an element further
 * on; a neighbourhood in several dimensions has both.
 *
 * weigh: y[i] = end(sum over t of weight[t] * x[t][i]), summed in that order, in reals of the row's type. Of doubles, no
 *   product is fused with its sum, so that the results are those of plain C. `kind` says how:
 *     LK_WEIGH_EACH         each row has a weight
 *     LK_WEIGH_SUMS         the first row has a weight, then pairs of rows are summed and have one together
 *     LK_WEIGH_DIFFERENCES  likewise, of pairs the second is subtracted
 *     LK_WEIGH_PLAIN        none has a weight
 *     LK_WEIGH_BAND         each row has a weight, and `rows` results, y_row bytes apart, are of windows that begin a row
 *                           further on each: of taps + rows - 1 rows. At most LK_BAND_ROWS. Products are fused with sums
 *                           where there are instructions for it, also of doubles
 *     LK_WEIGH_BAND_SUMS, LK_WEIGH_BAND_DIFFERENCES   `rows` results of that many rows, each what LK_WEIGH_SUMS or
 *                           LK_WEIGH_DIFFERENCES make of the middle row of a window, then of the pairs of rows equally far
 *                           from it, the outermost first
 *     LK_WEIGH_BAND_EACH    `rows` results of windows in several dimensions: row t is part of result r if bit r of fixed[t] is
 *                           set, with weight[LK_BAND_ROWS * t + r]; rows that are part of no result are not read. Rows have
 *                           the row's type
 *     LK_WEIGH_SECTIONS     of each of `taps` sections, at most 3, two rows of states, x[2 + 2 * k] and that before it,
 *                           x[3 + 2 * k], which becomes the new one: the sum of x[0], x[1] and both states times the four
 *                           weights of the section. y is the sum of all new states, and of x[2 + 2 * taps] unless that is
 *                           NULL. Rows have the row's type, products are fused, no other field is read; y may be any row
 *                           but states
 *   `end` is what becomes of a sum:
 *     LK_END_NONE    nothing
 *     LK_END_MEAN    it is multiplied by 1 / `size`
 *     LK_END_WHOLE   it is a whole number, divided by `size`, and its fraction left out. Magnitudes are below 2^22 in f32,
 *                    2^51 in f64
 *     LK_END_CAST    it is divided by `size`, then becomes what C makes of a double that is cast to `to`: the fraction is left
 *                    out, then what does not fit wraps around. What is cast to LK_S64 fits
 *   Rows of u8, s8, u16 and s16 have elements and results of their own type. `weight` is of doubles, and results are
 *   those of the row of f64 with LK_END_CAST to that type. How they are found: a sum has terms, the first row, then each
 *   other row or pair of rows. fixed[2 * k] has the high words of two weights times 2^(16 + fraction), that of term 2 * k in its
 *   lower 16 bits and that of term 2 * k + 1 in its upper ones; fixed[2 * k + 1] has their low words. Sums that differ from a
 *   whole number by at most `doubt` * 2^-fraction are made again of doubles. If `doubt` is 0, the low words are 0 and sums
 *   are exact. u8 and u16 have also
 *   LK_WEIGH_PLAIN with LK_END_WHOLE, of at most LK_MOST_BYTES and LK_MOST_WORDS elements: `rows` results as of LK_WEIGH_BAND,
 *   0 is 1; where no weight is negative, sums and twice their doubt are of the element's range, and `doubt` is not 0, also
 *   LK_WEIGH_BAND_SUMS    as those of reals; fixed and weight as of LK_WEIGH_SUMS
 *   LK_WEIGH_LINE_SUMS    of u8: one result of them, of row 0 alone: row t is that from its element t on
 *   u16 and s16 have
 *   LK_WEIGH_BAND_PAIRS, LK_WEIGH_LINE_PAIRS   likewise, if `doubt` is not 0, also of negative weights; taps are an odd number,
 *                         and `fixed` is as pairs.h has it
 *   All four have
 *   LK_WEIGH_HALVES: of one, two or four rows of 2 * count elements, y[i] = the mean of all x[t][2 * i] and x[t][2 * i + 1],
 *   rounded to the nearest whole number, halves away from 0; of other fields `ahead_row` alone is read: so many bytes ahead
 *   each row is prefetched, if it is not 0.
 * fold: y[i] = the least, or where `kind` is LK_FOLD_LARGEST the largest, of x[t][i], of floats plus weight[t] unless that is
 *   NULL. NaN is left out, unless there is nothing else. Without weights there may be `rows` results as of LK_WEIGH_BAND; 0 is 1.
 * rank: y[i] = number `rank` in ascending order of x[t][i], by a network of `steps` comparisons: each has two places of
 *   `network`, of which the first gets the lesser. NaN is larger than all numbers. `scratch` has a vector for each row.
 *   `kind` LK_RANK_COLUMNS: y[i] = the median of x[t][i + k * unit] of all t and k < `steps`, of 3 rows in 3 steps, 5 in 5, or
 *   9 in 3. `scratch` has, for each row, the elements of it that are read, and those of two vectors. Of 3 rows there may be
 *   `rows` results as of LK_WEIGH_BAND, and `scratch` is for 4 rows.
 *   `kind` LK_RANK_SLIDE: row t is row 0 from its element t on, so that the next window has one other element; windows are kept
 *   sorted. `scratch` has the elements of row 0 that are read, `taps` ones, and those of two vectors.
 *
 * `ahead`, unless it is NULL: as many rows as y has, ahead_row bytes apart, of which the first `count` elements are soon rows;
 * they are prefetched. `stream`: y is not read soon, and stored past the caches, without stream_end. A kernel may ignore both.
 *
 * No row overlaps y, except that y itself may be one of the rows of reals that weigh sums, if `count` is a multiple of the
 * elements of a vector. `element` is that of the rows: weigh widens what it loads; y is of the row's type. */
typedef struct {
    const char *const *x;
    char *y;
    int64_t taps, count;
    const void *weight;
    int kind, element, end, to;
    double size;
    const int32_t *network;
    int64_t steps, rank;
    void *scratch;
    int64_t rows, y_row;
    const int32_t *fixed;
    int fraction, doubt;
    int64_t unit;
    const char *ahead;
    int64_t ahead_row;
    int stream;
} lk_combine;
typedef void (*lk_combine_fn)(const lk_combine *);

enum {
    LK_WEIGH_EACH, LK_WEIGH_SUMS, LK_WEIGH_DIFFERENCES, LK_WEIGH_PLAIN, LK_WEIGH_BAND, LK_WEIGH_BAND_SUMS,
    LK_WEIGH_BAND_DIFFERENCES, LK_WEIGH_HALVES, LK_WEIGH_SECTIONS, LK_WEIGH_LINE_SUMS, LK_WEIGH_BAND_PAIRS,
    LK_WEIGH_LINE_PAIRS, LK_WEIGH_BAND_EACH,
};
enum { LK_BAND_ROWS = 4, LK_MOST_BYTES = 128, LK_MOST_WORDS = 63 };
enum { LK_END_NONE, LK_END_MEAN, LK_END_WHOLE, LK_END_CAST };
enum { LK_FOLD_LEAST, LK_FOLD_LARGEST };
enum { LK_RANK_NETWORK, LK_RANK_COLUMNS, LK_RANK_SLIDE };

/* widen: y[i] = x[i], elements to reals; cast: reals to elements, as C casts doubles. */
typedef struct {
    const char *x;
    char *y;
    int64_t count;
    int element;
} lk_cast_row;
typedef void (*lk_cast_fn)(const lk_cast_row *);

/* y[i] = x[i] rounded to the nearest whole number, halves away from 0, which fits the element (u8, s8, u16 or s16). The places
 * of those whose fraction differs from a half by at most `doubt` + `slope` * |x[i]|, unless `doubt` is 0, are written to
 * `doubtful`, which has room for `count`, and how many they are to `found`. */
typedef struct {
    const char *x;
    char *y;
    int64_t count;
    int element;
    double doubt, slope;
    int32_t *doubtful;
    int64_t *found;
} lk_round_row;
typedef void (*lk_round_fn)(const lk_round_row *);

#endif
