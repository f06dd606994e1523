/* Networks of comparisons: S(a, b) puts the lesser of two numbers at place a, the larger at b. SORT_h sorts a column of h;
 * MEDIAN_w_h leaves the median of w sorted columns, of which number k has the places from k * h on, at the place
 * MEDIAN_w_h_AT. They were found by leaving comparisons out of a sort of rows and a sort of what is left, as long as all
 * sorted columns of zeros and ones had the right median. */
#ifndef LAYOUTKIT_MEDIANS_H
#define LAYOUTKIT_MEDIANS_H

#define SORT_3(S) \
    S(0, 1) S(1, 2) S(0, 1)
#define SORT_5(S) \
    S(0, 1) S(3, 4) S(2, 4) S(2, 3) S(1, 4) S(0, 3) S(0, 2) S(1, 3) S(1, 2)
#define SORT_9(S) \
    S(0, 1) S(3, 4) S(6, 7) S(1, 2) S(4, 5) S(7, 8) S(0, 1) S(3, 4) S(6, 7) S(0, 3) S(3, 6) S(0, 3) S(1, 4) S(4, 7) \
    S(1, 4) S(2, 5) S(5, 8) S(2, 5) S(1, 3) S(5, 7) S(2, 6) S(4, 6) S(2, 4) S(2, 3) S(5, 6)

#define MEDIAN_3_3(S) \
    S(0, 3) S(3, 6) S(1, 7) S(1, 4) S(4, 7) S(2, 8) S(2, 5) S(4, 2) S(4, 6) S(6, 2)
#define MEDIAN_5_5(S) \
    S(0, 20) S(0, 10) S(5, 15) S(10, 20) S(10, 15) S(5, 20) S(15, 20) S(1, 11) S(6, 16) S(1, 6) S(11, 16) S(6, 21) \
    S(6, 11) S(16, 21) S(2, 22) S(2, 12) S(7, 17) S(12, 22) S(2, 7) S(12, 17) S(7, 22) S(7, 12) S(17, 22) S(3, 23) \
    S(3, 13) S(8, 18) S(13, 23) S(3, 8) S(13, 18) S(8, 23) S(8, 13) S(4, 24) S(4, 14) S(14, 24) S(4, 9) S(14, 19) \
    S(9, 14) S(8, 21) S(12, 9) S(15, 12) S(11, 7) S(3, 20) S(8, 16) S(17, 9) S(12, 17) S(20, 4) S(12, 20) S(7, 16) \
    S(17, 4) S(3, 17) S(8, 7) S(20, 17) S(16, 13) S(12, 7) S(20, 16) S(7, 17) S(7, 20)
#define MEDIAN_3_9(S) \
    S(0, 18) S(9, 18) S(1, 19) S(10, 19) S(2, 20) S(2, 11) S(11, 20) S(3, 21) S(3, 12) S(12, 21) S(4, 22) S(4, 13) \
    S(13, 22) S(5, 23) S(5, 14) S(14, 23) S(6, 24) S(6, 15) S(15, 24) S(7, 25) S(7, 16) S(8, 26) S(8, 17) S(6, 21) \
    S(18, 6) S(5, 19) S(12, 7) S(7, 15) S(6, 13) S(19, 7) S(20, 14) S(11, 6) S(12, 19) S(13, 20) S(7, 8) S(6, 19) \
    S(13, 7) S(19, 20) S(19, 13)
enum { MEDIAN_3_3_AT = 6, MEDIAN_5_5_AT = 20, MEDIAN_3_9_AT = 13 };

#endif
