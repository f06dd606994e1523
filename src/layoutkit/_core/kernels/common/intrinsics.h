/* The intrinsics of the instruction set that a source is compiled for.
 *
 * immintrin.h is all that Intel has: gcc reads 74,000 lines, for a tenth to a fifth of a second in each of a hundred
 * objects. Where meson found that gcc's parts of it can be included by themselves, LK_PARTS_OF_INTRINSICS is 1. */
#ifndef LAYOUTKIT_INTRINSICS_H
#define LAYOUTKIT_INTRINSICS_H

#if defined(__AVX2__) && LK_PARTS_OF_INTRINSICS && !defined(__AVX512BF16__) && !defined(__AVX512VNNI__)
#define _IMMINTRIN_H_INCLUDED /* which they ask for */
#include <smmintrin.h> /* and those before it */

#include <avxintrin.h>
#include <avx2intrin.h>
#include <f16cintrin.h>
#include <fmaintrin.h>
#ifdef __AVX512F__
#include <avx512fintrin.h>
#include <avx512vlintrin.h>
#include <avx512bwintrin.h>
#include <avx512dqintrin.h>
#include <avx512vlbwintrin.h>
#endif
#elif defined(__AVX2__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#endif
