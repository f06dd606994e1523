/* Shapes that every row of these families is run on, by pytest between guard pages and by tools/harness.c, which
 * has more of its own. Expressions are of C and of Python; `t` is the row's largest side of a tile, at least 4. */

/* Moves: aligned, 1 x n, n x 1 and ragged. */
#define MOVE_CASES(X, t) /* n0, n1 */ \
    X(t, t) X(2 * t, 3 * t) X(1, 2 * t) X(2 * t, 1) X(1, 1) X(t + 1, 2 * t - 1) X(3 * t - 1, t + 3)

/* Sums of gemm. */
#define SUM_CASES(X) /* taps, blocks, kb, kb_last */ \
    X(1, 1, 7, 7) X(3, 2, 4, 3) X(2, 1, 8, 8) X(1, 3, 16, 1) X(3, 1, 2, 2) X(1, 1, 21, 21)

/* Strips: lengths, and what of the input of k x k taps is padding; `most` columns at most. */
#define STRIP_CASES(X) /* step, rows */ \
    X(1, 1) X(1, 2) X(1, 4) X(1, 9) X(2, 1) X(2, 2) X(2, 5)
#define BORDER_CASES(X, most) /* left, right, top, below */ \
    X(0, 0, 0, 0) X(1, 0, 1, 0) X(0, 1, 0, 1) X(1, 1, 1, 1) X(most, most, 3, 2)

/* Packed pairs: how many, and the first of them. */
#define PAIR_CASES(X) /* n */ \
    X(0) X(1) X(2) X(3) X(15) X(31) X(32) X(33) X(34) X(63) X(64) X(65) X(100) X(2047) X(2049)
