/* Ping-pong, windows of messages and the bulk-synchronous ring in C, as the loops of bench/mpi_loops.py.
 *
 * Buffers and communicator are Python's. Every function returns or stores seconds, or -1 if MPI failed.
 */
#include <mpi.h>
#include <stdint.h>

enum { TAG = 7, ACKNOWLEDGE = 8, MAX_WINDOW = 1024 };

/* Seconds of `batch` round trips; the one with first != 0 starts. */
double ping_pong(MPI_Comm *comm, int partner, int first, void *outbox, void *inbox, int size, int batch)
{
    int failed = 0;
    double start = MPI_Wtime();
    if (first) {
        for (int i = 0; i < batch; i++) {
            failed |= MPI_Send(outbox, size, MPI_BYTE, partner, TAG, *comm);
            failed |= MPI_Recv(inbox, size, MPI_BYTE, partner, TAG, *comm, MPI_STATUS_IGNORE);
        }
    } else {
        for (int i = 0; i < batch; i++) {
            failed |= MPI_Recv(inbox, size, MPI_BYTE, partner, TAG, *comm, MPI_STATUS_IGNORE);
            failed |= MPI_Send(outbox, size, MPI_BYTE, partner, TAG, *comm);
        }
    }
    double seconds = MPI_Wtime() - start;
    return failed ? -1.0 : seconds;
}

/* Seconds of `batch` windows: so many messages in flight one way, then one of 4 bytes back. */
double windows(MPI_Comm *comm, int partner, int sends, void *buffer, void *reply, int size, int window, int batch)
{
    MPI_Request requests[MAX_WINDOW];
    if (window > MAX_WINDOW)
        return -1.0;
    int failed = 0;
    double start = MPI_Wtime();
    for (int i = 0; i < batch; i++) {
        for (int k = 0; k < window; k++)
            failed |= sends ? MPI_Isend(buffer, size, MPI_BYTE, partner, TAG, *comm, &requests[k])
                            : MPI_Irecv(buffer, size, MPI_BYTE, partner, TAG, *comm, &requests[k]);
        failed |= MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
        failed |= sends ? MPI_Recv(reply, 4, MPI_BYTE, partner, ACKNOWLEDGE, *comm, MPI_STATUS_IGNORE)
                        : MPI_Send(reply, 4, MPI_BYTE, partner, ACKNOWLEDGE, *comm);
    }
    double seconds = MPI_Wtime() - start;
    return failed ? -1.0 : seconds;
}

/* The same with requests made once, before the clock starts, and started together: MPI_Startall. */
double persistent_windows(MPI_Comm *comm, int partner, int sends, void *buffer, void *reply, int size, int window,
                          int batch)
{
    MPI_Request requests[MAX_WINDOW];
    if (window > MAX_WINDOW)
        return -1.0;
    int failed = 0;
    for (int k = 0; k < window; k++)
        failed |= sends ? MPI_Send_init(buffer, size, MPI_BYTE, partner, TAG, *comm, &requests[k])
                        : MPI_Recv_init(buffer, size, MPI_BYTE, partner, TAG, *comm, &requests[k]);
    double start = MPI_Wtime();
    for (int i = 0; i < batch; i++) {
        failed |= MPI_Startall(window, requests);
        failed |= MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
        failed |= sends ? MPI_Recv(reply, 4, MPI_BYTE, partner, ACKNOWLEDGE, *comm, MPI_STATUS_IGNORE)
                        : MPI_Send(reply, 4, MPI_BYTE, partner, ACKNOWLEDGE, *comm);
    }
    double seconds = MPI_Wtime() - start;
    for (int k = 0; k < window; k++)
        failed |= MPI_Request_free(&requests[k]);
    return failed ? -1.0 : seconds;
}

static uint64_t read_words(const uint64_t *words, int64_t mask, int64_t reads)
{
    uint64_t seen = 0;
    for (int64_t i = 0; i < reads; i++)
        seen += words[i & mask];
    return seen;
}

static void write_words(uint64_t *words, int64_t mask, int64_t writes, uint64_t value)
{
    for (int64_t i = 0; i < writes; i++)
        words[i & mask] = value + (uint64_t)i;
}

/* A chain of multiplications and additions, each of which needs the one before it. */
static double compute(double x, int64_t flops)
{
    for (int64_t i = 0; i < flops / 2; i++)
        x = 0.5 * x + 1.0;
    return x;
}

/* `iterations` of the ring: work = reads, writes, flops, communications; words [mask + 1];
 * seconds [iterations][4]: in reads, writes, flops and communications; sums: of what was read and computed.
 * Returns 0, or an error of MPI. */
int ring(MPI_Comm *comm, int forward, int backward, uint64_t *words, int64_t mask, const int64_t *work,
         void *outbox, void *inbox, int size, int64_t iterations, double *seconds, double *sums)
{
    int failed = 0;
    uint64_t seen = 0;
    double x = 1.0;
    for (int64_t i = 0; i < iterations; i++, seconds += 4) {
        double t0 = MPI_Wtime();
        seen += read_words(words, mask, work[0]);
        double t1 = MPI_Wtime();
        write_words(words, mask, work[1], (uint64_t)i);
        double t2 = MPI_Wtime();
        x = compute(x + 1.0, work[2]);
        double t3 = MPI_Wtime();
        for (int64_t k = 0; k < work[3]; k++) {
            MPI_Request request;
            failed |= MPI_Isend(outbox, size, MPI_BYTE, forward, TAG, *comm, &request);
            failed |= MPI_Recv(inbox, size, MPI_BYTE, backward, TAG, *comm, MPI_STATUS_IGNORE);
            failed |= MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        double t4 = MPI_Wtime();
        seconds[0] = t1 - t0;
        seconds[1] = t2 - t1;
        seconds[2] = t3 - t2;
        seconds[3] = t4 - t3;
    }
    sums[0] = (double)(seen & 0xFFFFFFFF);
    sums[1] = x;
    return failed;
}
