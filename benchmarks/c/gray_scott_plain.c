/* The Gray-Scott sweep as plain C: the peer for "what a compiler makes of straightforward loops".
 *
 * One forward Euler step of
 *     u_t = Du lap(u) - u v^2 + F (1 - u) + n r,    v_t = Dv lap(v) + u v^2 - (F + k) v,
 *     lap(u) = (sum of the 6 neighbours - 6 u) / 6,
 * on one block with ghost cells: cell (k, j, i) lies at [origin + k * plane_pitch + j * row_pitch + i].
 * Ghosts are read and never written. Two arrays per field, one pass, threads over planes, no intrinsics.
 *
 * With -DSIMD the loops over x carry `omp simd`: gcc forgets `restrict` when it moves a parallel region into a
 * function of its own, gives up on the many alias checks, and leaves the loops scalar unless it is told.
 *
 * Build: gcc -O3 -march=native -fopenmp -shared -fPIC [-DREAL=float] [-DSIMD] gray_scott_plain.c
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#ifndef REAL
#define REAL double
#endif

#ifdef SIMD
#define VECTORIZE _Pragma("omp simd")
#else
#define VECTORIZE
#endif

struct coefficients {
    REAL diffusion_u; /* dt * Du / 6 */
    REAL diffusion_v; /* dt * Dv / 6 */
    REAL feed;        /* dt * F */
    REAL loss_v;      /* -dt * (F + k) */
    REAL noise;       /* dt * n */
    REAL dt;
};

struct extent {
    ptrdiff_t nz, ny, nx;      /* owned cells */
    ptrdiff_t origin;          /* of cell (0, 0, 0) */
    ptrdiff_t row_pitch, plane_pitch;
};

void gray_scott_step(const REAL *restrict u, const REAL *restrict v, REAL *restrict u_new, REAL *restrict v_new,
                     const struct extent *extent, const struct coefficients *coefficients, int n_threads)
{
    const struct extent e = *extent;
    const struct coefficients c = *coefficients;

#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (ptrdiff_t k = 0; k < e.nz; k++) {
        for (ptrdiff_t j = 0; j < e.ny; j++) {
            const ptrdiff_t start = e.origin + k * e.plane_pitch + j * e.row_pitch;
            VECTORIZE
            for (ptrdiff_t i = start; i < start + e.nx; i++) {
                const REAL sum_u = u[i - 1] + u[i + 1] + u[i - e.row_pitch] + u[i + e.row_pitch] +
                                   u[i - e.plane_pitch] + u[i + e.plane_pitch];
                const REAL sum_v = v[i - 1] + v[i + 1] + v[i - e.row_pitch] + v[i + e.row_pitch] +
                                   v[i - e.plane_pitch] + v[i + e.plane_pitch];
                const REAL reaction = c.dt * u[i] * v[i] * v[i];
                u_new[i] = u[i] + c.diffusion_u * (sum_u - 6 * u[i]) + c.feed * (1 - u[i]) - reaction;
                v_new[i] = v[i] + c.diffusion_v * (sum_v - 6 * v[i]) + c.loss_v * v[i] + reaction;
            }
        }
    }
}

/* Philox4x32-7 (Salmon et al., SC11): four 32-bit words of the block with this counter and key. */
static inline void philox(uint32_t x[4], uint32_t k0, uint32_t k1)
{
    for (int round = 0; round < 7; round++) {
        const uint64_t p0 = (uint64_t)x[0] * 0xD2511F53u;
        const uint64_t p1 = (uint64_t)x[2] * 0xCD9E8D57u;
        const uint32_t x1 = x[1], x3 = x[3];
        x[0] = (uint32_t)(p1 >> 32) ^ x1 ^ k0;
        x[1] = (uint32_t)p1;
        x[2] = (uint32_t)(p0 >> 32) ^ x3 ^ k1;
        x[3] = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

/* A half of a word as a signed integer, plus 1/2, times 2^-15. */
static inline REAL uniform(uint32_t half)
{
    return ((REAL)(int16_t)half + (REAL)0.5) * (REAL)0x1p-15;
}

/* Eight rows of uniform numbers in (-1, 1): one Philox block serves the cells (z, 8 y8 ... 8 y8 + 7, x). */
static void fill_noise(REAL *restrict noise, ptrdiff_t nx, uint32_t y8, uint32_t z, uint32_t step, uint64_t seed)
{
    VECTORIZE
    for (ptrdiff_t i = 0; i < nx; i++) {
        uint32_t x[4] = {(uint32_t)i, y8, z, step};
        philox(x, (uint32_t)seed, (uint32_t)(seed >> 32));
        noise[i] = uniform(x[0]);
        noise[nx + i] = uniform(x[1]);
        noise[2 * nx + i] = uniform(x[2]);
        noise[3 * nx + i] = uniform(x[3]);
        noise[4 * nx + i] = uniform(x[0] >> 16);
        noise[5 * nx + i] = uniform(x[1] >> 16);
        noise[6 * nx + i] = uniform(x[2] >> 16);
        noise[7 * nx + i] = uniform(x[3] >> 16);
    }
}

/* The same step with noise, for a block whose first cell is global cell (0, 0, 0). Returns 0, or 1 without memory. */
int gray_scott_step_noise(const REAL *restrict u, const REAL *restrict v, REAL *restrict u_new, REAL *restrict v_new,
                          const struct extent *extent, const struct coefficients *coefficients, uint64_t seed,
                          uint32_t step, int n_threads)
{
    const struct extent e = *extent;
    const struct coefficients c = *coefficients;
    int failed = 0;

#pragma omp parallel num_threads(n_threads) reduction(| : failed)
    {
        REAL *noise = malloc(8 * e.nx * sizeof(REAL));
        failed = noise == NULL;
#pragma omp for schedule(static)
        for (ptrdiff_t k = 0; k < e.nz; k++) {
            for (ptrdiff_t j = 0; j < e.ny && !failed; j++) {
                if (j % 8 == 0)
                    fill_noise(noise, e.nx, (uint32_t)(j / 8), (uint32_t)k, step, seed);
                const REAL *r = noise + (j % 8) * e.nx;
                const ptrdiff_t start = e.origin + k * e.plane_pitch + j * e.row_pitch;
                VECTORIZE
                for (ptrdiff_t x = 0; x < e.nx; x++) {
                    const ptrdiff_t i = start + x;
                    const REAL sum_u = u[i - 1] + u[i + 1] + u[i - e.row_pitch] + u[i + e.row_pitch] +
                                       u[i - e.plane_pitch] + u[i + e.plane_pitch];
                    const REAL sum_v = v[i - 1] + v[i + 1] + v[i - e.row_pitch] + v[i + e.row_pitch] +
                                       v[i - e.plane_pitch] + v[i + e.plane_pitch];
                    const REAL reaction = c.dt * u[i] * v[i] * v[i];
                    u_new[i] = u[i] + c.diffusion_u * (sum_u - 6 * u[i]) + c.feed * (1 - u[i]) + c.noise * r[x] -
                               reaction;
                    v_new[i] = v[i] + c.diffusion_v * (sum_v - 6 * v[i]) + c.loss_v * v[i] + reaction;
                }
            }
        }
        free(noise);
    }
    return failed;
}
