/* Windows: vectors of the source that vectors of the destination are combined from; made from a table. */
#ifndef LAYOUTKIT_WINDOWS_H
#define LAYOUTKIT_WINDOWS_H

#include "transpose.h"

#include <string.h>

/* Where vector v of the destination begins: the last one ends with the table. */
LK_INLINE int64_t windows_first(int64_t v, int64_t n, int per)
{
    return v * per + per <= n || n < per ? v * per : n - per;
}

/* The lanes of a vector of 64 bytes whose elements `left` are at `at`, if there are at most 16, and they are faster than
 * windows: entries from `count` on, four for each register. Returns how many registers these are, or 0. The order of the
 * first two registers, and that of the other two, is in the first two entries; the mask of the first one tells which
 * elements come from the others. */
static inline int windows_in_lanes(lk_windows *w, const int64_t *at, uint64_t left, int width, int64_t count)
{
    enum { LANE = 16, VECTOR = 64, MOST = 16 };
    int64_t begins[MOST];
    int n = 0, windows = 0;
    for (uint64_t rest = left; rest;) { /* in the order of addresses */
        int64_t begin = INT64_MAX;
        for (int e = 0; e < VECTOR / width; e++)
            if (rest >> e & 1 && at[e] < begin)
                begin = at[e];
        for (int e = 0; e < VECTOR / width; e++)
            if (rest >> e & 1 && at[e] - begin <= VECTOR - width)
                rest &= ~(1ull << e);
        windows++;
    }
    for (uint64_t rest = left; rest; n++) {
        int64_t begin = INT64_MAX;
        if (n == MOST)
            return 0;
        for (int e = 0; e < VECTOR / width; e++)
            if (rest >> e & 1 && at[e] < begin)
                begin = at[e];
        if (begin + LANE > w->stop)
            begin -= (begin + LANE - w->stop + width - 1) / width * width;
        for (int e = 0; e < VECTOR / width; e++)
            if (rest >> e & 1 && at[e] - begin <= LANE - width) {
                if ((at[e] - begin) % width)
                    return 0;
                rest &= ~(1ull << e);
            }
        begins[n] = begin;
    }
    const int registers = (n + 3) / 4;
    if (!n || windows <= registers || (registers == 4 && windows <= 6) || w->part)
        return 0;
    if (!w->at)
        return registers;
    char *const orders = (char *)w->orders + count * VECTOR;
    uint64_t other = 0;
    for (int k = 0; k < 4 * registers; k++)
        ((int64_t *)w->at)[count + k] = begins[k < n ? k : n - 1];
    for (int e = 0; e < VECTOR / width; e++) {
        int lane = 0;
        while (left >> e & 1 && !(at[e] >= begins[lane] && at[e] - begins[lane] <= LANE - width))
            lane++;
        if (!(left >> e & 1))
            continue;
        const uint64_t place = (lane % 8 * LANE + at[e] - begins[lane]) / width;
        memcpy(orders + lane / 8 * VECTOR + e * width, &place, width);
        other |= (uint64_t)(lane / 8) << e;
    }
    ((uint64_t *)w->masks)[count] = other;
    ((uint64_t *)w->masks)[count + 1] = ~left;
    return registers;
}

/* Makes the windows of a table `from` of n elements of `width` bytes: `per` elements are a vector, `unit` bytes an
 * element of an order; vectors of 64 bytes may be of lanes. Returns how many there are, at most
 * 4 * (n + per). The arrays of `w`, of zeros, are written if they are not NULL, its other fields always. */
static inline int64_t windows_of(lk_windows *w, const int64_t *from, int64_t n, int width, int per, int unit,
                                 const char *pad)
{
    const int64_t bytes = (int64_t)width * per;
    int64_t count = 0, low = INT64_MAX, high = INT64_MIN;
    for (int64_t i = 0; i < n; i++) {
        if (from[i] == LK_NOWHERE)
            continue;
        low = from[i] < low ? from[i] : low;
        high = from[i] + width > high ? from[i] + width : high;
    }
    w->vectors = (n + per - 1) / per;
    w->stop = high;
    w->part = high - low < bytes || n < per;
    for (int64_t v = 0; v < w->vectors; v++) {
        const int64_t *const at = from + windows_first(v, n, per);
        const int some = n < per ? (int)n : per;
        uint64_t left = 0;
        for (int e = 0; e < some; e++) {
            left |= (uint64_t)(at[e] != LK_NOWHERE) << e;
            if (w->pad_vectors && at[e] == LK_NOWHERE)
                memcpy((char *)w->pad_vectors + v * bytes + e * width, pad, width);
        }
        const int few = bytes == 64 ? windows_in_lanes(w, at, left, width, count) : 0;
        if (w->lane_registers)
            ((int8_t *)w->lane_registers)[v] = (int8_t)few;
        if (few) {
            count += 4 * few;
            left = 0;
        }
        while (left) {
            int64_t begin = INT64_MAX;
            uint64_t mask = 0;
            for (int e = 0; e < some; e++)
                if (left >> e & 1 && at[e] < begin)
                    begin = at[e];
            if (!w->part && begin + bytes > high) /* it would reach beyond the source */
                begin -= (begin + bytes - high + unit - 1) / unit * unit;
            if (!w->part && begin < low)
                begin += unit, w->part = 1;
            for (int e = 0; e < some; e++) {
                const int64_t in = left >> e & 1 ? at[e] - begin : -1;
                if (in >= 0 && in % unit == 0 && in + width <= bytes)
                    mask |= 1ull << e;
            }
            if (w->at) {
                char *const order = (char *)w->orders + count * bytes;
                memset(order, 0xff, bytes);
                for (int e = 0; e < some; e++)
                    for (int k = 0; mask >> e & 1 && k < width / unit; k++) {
                        const uint64_t place = (at[e] - begin) / unit + k;
                        memcpy(order + e * width + k * unit, &place, unit); /* little-endian */
                    }
                ((int64_t *)w->at)[count] = begin;
                ((uint64_t *)w->masks)[count] = mask;
            }
            left &= ~mask;
            count++;
        }
        if (w->ends)
            ((int64_t *)w->ends)[v] = count;
    }
    return count;
}

#endif
