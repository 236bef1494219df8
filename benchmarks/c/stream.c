/* STREAM in C (McCalpin's four kernels and a read-only dot), to check the package's own STREAM against.
 *
 * Ordinary stores: plain loops. Non-temporal stores: AVX-512 intrinsics; arrays then start on a cache line.
 *
 * Build: gcc -O3 -march=native -fopenmp -shared -fPIC -fno-tree-loop-distribute-patterns [-DREAL=float] stream.c
 * (that flag keeps gcc from replacing the copy loop by memcpy, which may pick non-temporal stores by itself)
 */
#include <omp.h>
#include <stddef.h>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

#ifndef REAL
#define REAL double
#endif

enum { COPY, SCALE, ADD, TRIAD };

/* c = a;  b = s c;  c = a + b;  a = b + s c: here x and y are read and `out` is written. */
void stream_ordinary(int kernel, const REAL *restrict x, const REAL *restrict y, REAL *restrict out, REAL s,
                     ptrdiff_t n, int n_threads)
{
#pragma omp parallel num_threads(n_threads)
    switch (kernel) {
    case COPY:
#pragma omp for simd schedule(static)
        for (ptrdiff_t i = 0; i < n; i++)
            out[i] = x[i];
        break;
    case SCALE:
#pragma omp for simd schedule(static)
        for (ptrdiff_t i = 0; i < n; i++)
            out[i] = s * x[i];
        break;
    case ADD:
#pragma omp for simd schedule(static)
        for (ptrdiff_t i = 0; i < n; i++)
            out[i] = x[i] + y[i];
        break;
    default:
#pragma omp for simd schedule(static)
        for (ptrdiff_t i = 0; i < n; i++)
            out[i] = x[i] + s * y[i];
    }
}

/* The same with non-temporal stores. Returns 0, or 1 where the processor has no AVX-512. */
int stream_nontemporal(int kernel, const REAL *x, const REAL *y, REAL *out, REAL s, ptrdiff_t n, int n_threads)
{
#ifndef __AVX512F__
    return 1;
#else
    const ptrdiff_t line = 64 / sizeof(REAL);
    const ptrdiff_t lines = n / line;
    const int single = sizeof(REAL) == 4;
#define LOAD_PD(p, i) _mm512_load_pd((const double *)((p) + (i) * line))
#define LOAD_PS(p, i) _mm512_load_ps((const float *)((p) + (i) * line))
#define STREAM(pd, ps)                                                                                            \
    if (single)                                                                                                   \
        for (ptrdiff_t i = first; i < end; i++)                                                                   \
            _mm512_stream_ps((float *)(out + i * line), ps);                                                      \
    else                                                                                                          \
        for (ptrdiff_t i = first; i < end; i++)                                                                   \
            _mm512_stream_pd((double *)(out + i * line), pd);
#pragma omp parallel num_threads(n_threads)
    {
        const ptrdiff_t thread = omp_get_thread_num(), threads = omp_get_num_threads();
        const ptrdiff_t first = lines * thread / threads, end = lines * (thread + 1) / threads;
        const __m512d s_pd = _mm512_set1_pd(s);
        const __m512 s_ps = _mm512_set1_ps((float)s);
        switch (kernel) {
        case COPY:
            STREAM(LOAD_PD(x, i), LOAD_PS(x, i))
            break;
        case SCALE:
            STREAM(_mm512_mul_pd(s_pd, LOAD_PD(x, i)), _mm512_mul_ps(s_ps, LOAD_PS(x, i)))
            break;
        case ADD:
            STREAM(_mm512_add_pd(LOAD_PD(x, i), LOAD_PD(y, i)), _mm512_add_ps(LOAD_PS(x, i), LOAD_PS(y, i)))
            break;
        default:
            STREAM(_mm512_fmadd_pd(s_pd, LOAD_PD(y, i), LOAD_PD(x, i)),
                   _mm512_fmadd_ps(s_ps, LOAD_PS(y, i), LOAD_PS(x, i)))
        }
        _mm_sfence();
    }
    for (ptrdiff_t i = lines * line; i < n; i++)
        out[i] = kernel == COPY ? x[i] : kernel == SCALE ? s * x[i] : kernel == ADD ? x[i] + y[i] : x[i] + s * y[i];
    return 0;
#endif
}

/* Read only: the sum of x[i] y[i]. */
double stream_dot(const REAL *restrict x, const REAL *restrict y, ptrdiff_t n, int n_threads)
{
    double sum = 0;
#pragma omp parallel for simd num_threads(n_threads) reduction(+ : sum) schedule(static)
    for (ptrdiff_t i = 0; i < n; i++)
        sum += (double)(x[i] * y[i]);
    return sum;
}
