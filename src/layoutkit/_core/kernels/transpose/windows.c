/* Windows: neighbouring elements of the destination come from any places in the source.
 *
 *   dst[j*width] = src[from(j)]      j < n, at every step of the nest's loops
 *
 * Where dimensions are short, or blocks of both sides have few elements in common, the elements of a vector of the
 * destination are near one another in the source, in the same order at all steps. A vector is combined from windows:
 * vectors of the source that contain all of its elements, each loaded and shuffled at once. The last vector is
 * shifted back to end at the edge, and so are windows at the end of the source. The order of a vector stays in
 * registers for several steps.
 *
 * Where windows have few elements of a vector each, lanes of 16 bytes are loaded instead, four to a register, by
 * instructions without a shuffle, and the vector is shuffled from up to four such registers.
 *
 * Without shuffles by a vector of indices, elements are copied one by one: a vector is an element then.
 */
#include "common/stream.h"
#include "loops.h"
#include "windows.h"

enum { STEPS_BYTES = 16384, MIN_STEPS = 4 }; /* of the destination, between one vector and the next */

/* Copies n bytes, at most a window. */
LK_INLINE void window_part(char *d, const char *s, int n)
{
#ifdef __AVX512BW__
    copy_part(d, s, n);
#else
    memcpy(d, s, n);
#endif
}

#define PER_WIDTH "transpose/windows_width.inc"
#include "common/widths.inc"

#define ROW(BITS) LK_ROW(LK_WINDOWS, windows_x##BITS, "x" #BITS, 8 * LK_VB / BITS, windows_unit##BITS, windows_per##BITS)
const lk_kernel LK_NAME(lk_rows_windows)[] = {ROW(8), ROW(16), ROW(32), ROW(64), LK_LAST_ROW};
