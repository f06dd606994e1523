/* Vectors of the instruction set that this source is compiled for, by GCC's vector extensions. */
#ifndef LAYOUTKIT_VECTOR_H
#define LAYOUTKIT_VECTOR_H

#if defined(__AVX512F__)
#define LK_VB 64
#elif defined(__AVX__)
#define LK_VB 32
#else
#define LK_VB 16
#endif
#define LK_LANES (LK_VB / 4)

/* Callers' arrays are aligned to their elements only. */
typedef float vf __attribute__((vector_size(LK_VB), aligned(4), may_alias));
typedef float hf __attribute__((vector_size(LK_VB / 2), aligned(4), may_alias));

/* acc += a * b in acc's own register, in the order written. Left to itself gcc 12 hoists loads across the
 * unrolled steps of a full tile, accumulates into the broadcast's register, and spills. */
#if defined(__AVX512F__)
#define LK_PIN(x) __asm__ volatile("" : "+v"(x))
#define LK_FMA(acc, a, b) __asm__ volatile("vfmadd231ps %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b))
#elif defined(__FMA__)
#define LK_PIN(x) __asm__ volatile("" : "+x"(x))
#define LK_FMA(acc, a, b) __asm__ volatile("vfmadd231ps %2, %1, %0" : "+x"(acc) : "x"(a), "x"(b))
#else
#define LK_PIN(x) ((void)0)
#define LK_FMA(acc, a, b) ((acc) += (a) * (b))
#endif

#endif
