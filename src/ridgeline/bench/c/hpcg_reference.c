/* HPCG 3.1 in plain C and MPI, written from the published rules: the peer of the package's own HPCG.
 *
 * Source: Heroux, Dongarra and Luszczek, "HPCG technical specification", Sandia report SAND2013-8752, 2013, and the
 * rules of version 3.1. Data are laid out as the reference code of that version lays them out: every row has its own
 * arrays of 27 values and of 27 32-bit column numbers, reached by pointers, its number of entries is a char, and its
 * diagonal entry is reached by a pointer. Owned columns come first, then those of other ranks, by rank, then by
 * global number. All sums run in the order of the entries (z slowest, x fastest), as in the reference code.
 *
 * Build: mpicc -O3 -std=gnu11 -shared -fPIC hpcg_reference.c -lm     (no -march: the reference's default flags)
 */
#include <math.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 27, TAG = 99 };
enum { TIME_TOTAL, TIME_DOT, TIME_WAXPBY, TIME_SPMV, TIME_ALLREDUCE, TIME_MG, N_TIMES };

typedef long long global_int;

typedef struct {
    global_int id;
    int rank;
} Entry;

typedef struct Level {
    MPI_Comm comm;
    int n, n_columns, n_neighbours, n_send; /* owned rows; with external columns; ranks; values to send */
    global_int nonzeros;                    /* of this rank */
    char *count;
    double **values, **diagonal;
    int **columns;
    int *neighbours, *n_to, *n_from, *send_rows;
    double *send_buffer;
    MPI_Request *requests;
    int *fine_of_coarse; /* of the next level's rows */
    double *ax, *rc, *xc;
    struct Level *coarse;
} Level;

typedef struct {
    Level *finest;
    double *b, *x, *r, *z, *p, *ap;
    global_int rows;
} Problem;

static int by_rank_then_id(const void *left, const void *right)
{
    const Entry *a = left, *b = right;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

/* Sort, drop repeated entries, return how many remain. */
static int sort_unique(Entry *list, int n)
{
    int kept = 0;
    qsort(list, n, sizeof *list, by_rank_then_id);
    for (int i = 0; i < n; i++)
        if (kept == 0 || by_rank_then_id(&list[kept - 1], &list[i]))
            list[kept++] = list[i];
    return kept;
}

static void *get(size_t n, size_t size)
{
    void *place = malloc((n ? n : 1) * size);
    if (!place)
        MPI_Abort(MPI_COMM_WORLD, 1);
    return place;
}

/* Matrix and halo of one level: box of n[0] x n[1] x n[2] rows on each rank of a grid of np[0] x np[1] x np[2]. */
static Level *make_level(MPI_Comm comm, const int n[3], const int np[3])
{
    Level *level = get(1, sizeof *level);
    int rank, place[3];
    memset(level, 0, sizeof *level);
    MPI_Comm_rank(comm, &rank);
    place[0] = rank % np[0], place[1] = rank / np[0] % np[1], place[2] = rank / (np[0] * np[1]);
    const global_int g[3] = {(global_int)n[0] * np[0], (global_int)n[1] * np[1], (global_int)n[2] * np[2]};
    const int rows = n[0] * n[1] * n[2];
    const int shell = rows - (n[0] - 2) * (n[1] - 2) * (n[2] - 2);
    Entry *outside = get((size_t)shell * SLOTS, sizeof *outside), *inside = get((size_t)shell * SLOTS, sizeof *inside);
    int *unresolved = get((size_t)shell * SLOTS, sizeof *unresolved); /* row and slot of each entry of outside */
    int *slots = get((size_t)shell * SLOTS, sizeof *slots), n_outside = 0;
    Entry *sorted;

    level->comm = comm, level->n = rows;
    level->count = get(rows, 1);
    level->values = get(rows, sizeof *level->values), level->diagonal = get(rows, sizeof *level->diagonal);
    level->columns = get(rows, sizeof *level->columns);
    for (int i = 0; i < rows; i++)
        level->columns[i] = get(SLOTS, sizeof(int));
    for (int i = 0; i < rows; i++)
        level->values[i] = get(SLOTS, sizeof(double));

    for (int iz = 0; iz < n[2]; iz++)
        for (int iy = 0; iy < n[1]; iy++)
            for (int ix = 0; ix < n[0]; ix++) {
                const int row = (iz * n[1] + iy) * n[0] + ix;
                int k = 0;
                for (int dz = -1; dz <= 1; dz++)
                    for (int dy = -1; dy <= 1; dy++)
                        for (int dx = -1; dx <= 1; dx++) {
                            const int local[3] = {ix + dx, iy + dy, iz + dz};
                            global_int at[3];
                            int owner[3], valid = 1;
                            for (int d = 0; d < 3; d++) {
                                at[d] = (global_int)place[d] * n[d] + local[d];
                                valid &= at[d] >= 0 && at[d] < g[d];
                                owner[d] = (int)(at[d] / n[d]);
                            }
                            if (!valid)
                                continue;
                            const int there = (owner[2] * np[1] + owner[1]) * np[0] + owner[0];
                            level->columns[row][k] = (local[2] * n[1] + local[1]) * n[0] + local[0];
                            level->values[row][k] = dx || dy || dz ? -1.0 : 26.0;
                            if (!dx && !dy && !dz)
                                level->diagonal[row] = &level->values[row][k];
                            if (there != rank) {
                                outside[n_outside] = (Entry){(at[2] * g[1] + at[1]) * g[0] + at[0], there};
                                inside[n_outside] = (Entry){row, there};
                                slots[n_outside] = k, unresolved[n_outside++] = row;
                            }
                            k++;
                        }
                level->count[row] = (char)k;
                level->nonzeros += k;
            }

    sorted = get(n_outside, sizeof *sorted);
    memcpy(sorted, outside, n_outside * sizeof *sorted);
    const int n_external = sort_unique(sorted, n_outside);
    level->n_columns = rows + n_external;
    for (int e = 0; e < n_outside; e++) {
        const Entry *found = bsearch(&outside[e], sorted, n_external, sizeof *sorted, by_rank_then_id);
        level->columns[unresolved[e]][slots[e]] = rows + (int)(found - sorted);
    }
    level->n_send = sort_unique(inside, n_outside);
    level->neighbours = get(n_external, sizeof(int));
    level->n_from = calloc(n_external + 1, sizeof(int)), level->n_to = calloc(n_external + 1, sizeof(int));
    for (int e = 0; e < n_external; e++) {
        if (e == 0 || sorted[e].rank != sorted[e - 1].rank)
            level->neighbours[level->n_neighbours++] = sorted[e].rank;
        level->n_from[level->n_neighbours - 1]++;
    }
    level->send_rows = get(level->n_send, sizeof(int));
    level->send_buffer = get(level->n_send, sizeof(double));
    level->requests = get(level->n_neighbours, sizeof(MPI_Request));
    /* The pattern is symmetric: the ranks that this one sends to are those that it receives from. */
    for (int e = 0, k = 0; e < level->n_send; e++) {
        k += inside[e].rank != level->neighbours[k];
        level->n_to[k]++;
        level->send_rows[e] = (int)inside[e].id;
    }
    free(outside), free(inside), free(unresolved), free(slots), free(sorted);
    return level;
}

/* The next level: every second point of a box of n[0] x n[1] x n[2]. */
static void add_coarse(Level *fine, const int n[3], const int np[3])
{
    const int half[3] = {n[0] / 2, n[1] / 2, n[2] / 2};
    const int rows = half[0] * half[1] * half[2];
    fine->fine_of_coarse = get(rows, sizeof(int));
    for (int z = 0, i = 0; z < half[2]; z++)
        for (int y = 0; y < half[1]; y++)
            for (int x = 0; x < half[0]; x++, i++)
                fine->fine_of_coarse[i] = (2 * z * n[1] + 2 * y) * n[0] + 2 * x;
    fine->coarse = make_level(fine->comm, half, np);
    fine->ax = get(fine->n_columns, sizeof(double));
    fine->rc = get(rows, sizeof(double)), fine->xc = get(fine->coarse->n_columns, sizeof(double));
}

static void exchange(Level *level, double *x)
{
    double *to = level->send_buffer, *from = x + level->n;
    for (int k = 0; k < level->n_neighbours; from += level->n_from[k++])
        MPI_Irecv(from, level->n_from[k], MPI_DOUBLE, level->neighbours[k], TAG, level->comm, &level->requests[k]);
    for (int i = 0; i < level->n_send; i++)
        to[i] = x[level->send_rows[i]];
    for (int k = 0; k < level->n_neighbours; to += level->n_to[k++])
        MPI_Send(to, level->n_to[k], MPI_DOUBLE, level->neighbours[k], TAG, level->comm);
    for (int k = 0; k < level->n_neighbours; k++)
        MPI_Wait(&level->requests[k], MPI_STATUS_IGNORE);
}

static void spmv(Level *level, double *x, double *y)
{
    exchange(level, x);
    for (int i = 0; i < level->n; i++) {
        const double *values = level->values[i];
        const int *columns = level->columns[i], count = level->count[i];
        double sum = 0.0;
        for (int k = 0; k < count; k++)
            sum += values[k] * x[columns[k]];
        y[i] = sum;
    }
}

static inline void relax(const Level *level, int i, const double *r, double *x)
{
    const double *values = level->values[i];
    const int *columns = level->columns[i], count = level->count[i];
    const double diagonal = *level->diagonal[i];
    double sum = r[i];
    for (int k = 0; k < count; k++)
        sum -= values[k] * x[columns[k]];
    sum += x[i] * diagonal;
    x[i] = sum / diagonal;
}

static void symmetric_gauss_seidel(Level *level, const double *r, double *x)
{
    exchange(level, x);
    for (int i = 0; i < level->n; i++)
        relax(level, i, r, x);
    for (int i = level->n - 1; i >= 0; i--)
        relax(level, i, r, x);
}

static void multigrid(Level *level, const double *r, double *x)
{
    Level *coarse = level->coarse;
    memset(x, 0, level->n_columns * sizeof *x);
    symmetric_gauss_seidel(level, r, x);
    if (!coarse)
        return;
    spmv(level, x, level->ax);
    for (int i = 0; i < coarse->n; i++)
        level->rc[i] = r[level->fine_of_coarse[i]] - level->ax[level->fine_of_coarse[i]];
    multigrid(coarse, level->rc, level->xc);
    for (int i = 0; i < coarse->n; i++)
        x[level->fine_of_coarse[i]] += level->xc[i];
    symmetric_gauss_seidel(level, r, x);
}

static double dot(const Level *level, const double *x, const double *y, double *times)
{
    const double start = MPI_Wtime();
    double mine = 0.0, all;
    if (x == y)
        for (int i = 0; i < level->n; i++)
            mine += x[i] * x[i];
    else
        for (int i = 0; i < level->n; i++)
            mine += x[i] * y[i];
    const double summed = MPI_Wtime();
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, level->comm);
    const double end = MPI_Wtime();
    times[TIME_ALLREDUCE] += end - summed;
    times[TIME_DOT] += end - start;
    return all;
}

/* w = alpha x + beta y */
static void waxpby(int n, double alpha, const double *x, double beta, const double *y, double *w, double *times)
{
    const double start = MPI_Wtime();
    if (alpha == 1.0)
        for (int i = 0; i < n; i++)
            w[i] = x[i] + beta * y[i];
    else if (beta == 1.0)
        for (int i = 0; i < n; i++)
            w[i] = alpha * x[i] + y[i];
    else
        for (int i = 0; i < n; i++)
            w[i] = alpha * x[i] + beta * y[i];
    times[TIME_WAXPBY] += MPI_Wtime() - start;
}

static void timed_spmv(Level *level, double *x, double *y, double *times)
{
    const double start = MPI_Wtime();
    spmv(level, x, y);
    times[TIME_SPMV] += MPI_Wtime() - start;
}

/* Make the problem of a box on each rank; the communicator must live as long. */
Problem *hpcg_make(const MPI_Comm *comm, int nx, int ny, int nz, int npx, int npy, int npz, int levels)
{
    Problem *problem = get(1, sizeof *problem);
    int n[3] = {nx, ny, nz};
    const int np[3] = {npx, npy, npz};
    Level *level = problem->finest = make_level(*comm, n, np);
    for (int l = 1; l < levels; l++) {
        add_coarse(level, n, np);
        level = level->coarse;
        n[0] /= 2, n[1] /= 2, n[2] /= 2;
    }
    level = problem->finest;
    problem->rows = (global_int)nx * ny * nz * npx * npy * npz;
    problem->b = get(level->n, sizeof(double));
    for (int i = 0; i < level->n; i++)
        problem->b[i] = 26.0 - (level->count[i] - 1);
    problem->r = get(level->n, sizeof(double)), problem->ap = get(level->n, sizeof(double));
    problem->x = get(level->n_columns, sizeof(double));
    problem->z = get(level->n_columns, sizeof(double));
    problem->p = get(level->n_columns, sizeof(double));
    return problem;
}

void hpcg_free(Problem *problem)
{
    for (Level *level = problem->finest, *next; level; level = next) {
        next = level->coarse;
        for (int i = 0; i < level->n; i++)
            free(level->values[i]), free(level->columns[i]);
        free(level->count), free(level->values), free(level->diagonal), free(level->columns);
        free(level->neighbours), free(level->n_to), free(level->n_from), free(level->send_rows);
        free(level->send_buffer), free(level->requests), free(level->fine_of_coarse);
        free(level->ax), free(level->rc), free(level->xc), free(level);
    }
    free(problem->b), free(problem->x), free(problem->r), free(problem->z), free(problem->p), free(problem->ap);
    free(problem);
}

/* y = A x, x of this rank's rows. */
void hpcg_spmv(Problem *problem, const double *x, double *y)
{
    memcpy(problem->p, x, problem->finest->n * sizeof *x);
    spmv(problem->finest, problem->p, y);
}

/* z = M^-1 r by one multigrid cycle. */
void hpcg_multigrid(Problem *problem, const double *r, double *z)
{
    multigrid(problem->finest, r, problem->z);
    memcpy(z, problem->z, problem->finest->n * sizeof *z);
}

/* Copy the solution of the last solve. */
void hpcg_solution(const Problem *problem, double *x)
{
    memcpy(x, problem->x, problem->finest->n * sizeof *x);
}

/* Conjugate gradients from zero; returns iterations. history[0 .. iterations]: ||r|| / ||r0||; times: added to. */
int hpcg_cg(Problem *problem, int max_iterations, double tolerance, int preconditioned, double *history, double *times)
{
    Level *level = problem->finest;
    const int n = level->n;
    double *x = problem->x, *r = problem->r, *z = problem->z, *p = problem->p, *ap = problem->ap;
    double rtz = 0.0;
    int k;
    memset(x, 0, level->n_columns * sizeof *x);
    MPI_Barrier(level->comm);
    const double start = MPI_Wtime();
    waxpby(n, 1.0, x, 0.0, x, p, times);
    timed_spmv(level, p, ap, times);
    waxpby(n, 1.0, problem->b, -1.0, ap, r, times);
    const double first = sqrt(dot(level, r, r, times));
    double norm = first;
    history[0] = 1.0;
    for (k = 0; k < max_iterations && norm / first > tolerance; k++) {
        const double before = MPI_Wtime();
        if (preconditioned)
            multigrid(level, r, z);
        else
            memcpy(z, r, n * sizeof *z);
        times[TIME_MG] += MPI_Wtime() - before;
        const double old = rtz;
        rtz = dot(level, r, z, times);
        if (k == 0)
            waxpby(n, 1.0, z, 0.0, z, p, times);
        else
            waxpby(n, 1.0, z, rtz / old, p, p, times);
        timed_spmv(level, p, ap, times);
        const double alpha = rtz / dot(level, p, ap, times);
        waxpby(n, 1.0, x, alpha, p, x, times);
        waxpby(n, 1.0, r, -alpha, ap, r, times);
        norm = sqrt(dot(level, r, r, times));
        history[k + 1] = norm / first;
    }
    times[TIME_TOTAL] += MPI_Wtime() - start;
    return k;
}
