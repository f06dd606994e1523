#ifndef LAYOUTKIT_PEAK_H
#define LAYOUTKIT_PEAK_H

#include "kernels.h"

/* The machine's limit: `peak` does n rounds of independent FMAs, or steps, of the row's type and returns their flops. */
typedef double (*lk_peak_fn)(int64_t n);

#endif
