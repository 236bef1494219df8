/* The three tensor products of an element through LIBXSMM's generated kernels: the peer of elements/tensor.py.
 *
 * C is by rows here and by columns in LIBXSMM: C' = B' A', so the factors change places.
 * prepare() returns 0, or 1 where LIBXSMM has no kernel; run() applies a prepared product to every element. */
#include <libxsmm.h>
#include <stddef.h>

typedef struct {
  libxsmm_dmmfunction f64;
  libxsmm_smmfunction f32;
  ptrdiff_t batch, stride_a, stride_b, stride_c;
} product_t;

/* C[m x n] = A[m x k] B[k x n] by rows, `batch` of them, their matrices the strides apart (in numbers) */
int prepare(product_t *p, int single, int m, int n, int k, int lda, int ldb, int ldc, int batch, int stride_a,
            int stride_b, int stride_c) {
  const int flags = LIBXSMM_GEMM_FLAG_NONE, prefetch = LIBXSMM_GEMM_PREFETCH_NONE;
  p->f64 = NULL, p->f32 = NULL;
  p->batch = batch, p->stride_a = stride_a, p->stride_b = stride_b, p->stride_c = stride_c;
  libxsmm_init();
  if (single) {
    const float one = 1, zero = 0;
    p->f32 = libxsmm_smmdispatch(n, m, k, &ldb, &lda, &ldc, &one, &zero, &flags, &prefetch);
    return p->f32 == NULL;
  }
  const double one = 1, zero = 0;
  p->f64 = libxsmm_dmmdispatch(n, m, k, &ldb, &lda, &ldc, &one, &zero, &flags, &prefetch);
  return p->f64 == NULL;
}

size_t product_size(void) { return sizeof(product_t); }

/* `elements` elements, whose u and out are element_in and element_out numbers apart; u is factor b, or a */
void run(const product_t *p, int u_is_b, long elements, ptrdiff_t element_in, ptrdiff_t element_out,
         const void *u, const void *matrix, void *out) {
#define LOOP(type, kernel)                                                                            \
  for (long e = 0; e < elements; e++) {                                                               \
    const type *field = (const type *)u + e * element_in;                                             \
    const type *a = u_is_b ? (const type *)matrix : field, *b = u_is_b ? field : (const type *)matrix; \
    type *c = (type *)out + e * element_out;                                                          \
    for (ptrdiff_t i = 0; i < p->batch; i++)                                                          \
      kernel(b + i * p->stride_b, a + i * p->stride_a, c + i * p->stride_c);                          \
  }
  if (p->f64) {
    LOOP(double, p->f64)
  } else {
    LOOP(float, p->f32)
  }
}
