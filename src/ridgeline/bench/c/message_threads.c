/* Messages of several threads of a rank at the same time, each with one thread of the partner.
 *
 * The threads are POSIX threads. Each has its buffer, its tag and its clock. MPI must have been started with
 * MPI_THREAD_MULTIPLE.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

enum { MAX_WINDOW = 1024, TAG = 100, REPLY_TAG = 50000, MAX_THREADS = 4096 };

typedef struct {
    MPI_Comm comm;
    int partner, first, thread, size, window, iterations, warm_up, failed;
    void *buffer;
    pthread_barrier_t *ready;
    double seconds;
} Work;

static int round_trips(Work *work, int count)
{
    int failed = 0, tag = TAG + work->thread;
    for (int i = 0; i < count; i++) {
        if (work->first)
            failed |= MPI_Send(work->buffer, work->size, MPI_BYTE, work->partner, tag, work->comm);
        failed |= MPI_Recv(work->buffer, work->size, MPI_BYTE, work->partner, tag, work->comm, MPI_STATUS_IGNORE);
        if (!work->first)
            failed |= MPI_Send(work->buffer, work->size, MPI_BYTE, work->partner, tag, work->comm);
    }
    return failed;
}

static int windows(Work *work, int count)
{
    MPI_Request requests[MAX_WINDOW];
    int failed = 0, tag = TAG + work->thread, reply_tag = REPLY_TAG + work->thread;
    int32_t reply = 0;
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < work->window; k++)
            failed |= work->first ? MPI_Isend(work->buffer, work->size, MPI_BYTE, work->partner, tag, work->comm,
                                              &requests[k])
                                  : MPI_Irecv(work->buffer, work->size, MPI_BYTE, work->partner, tag, work->comm,
                                              &requests[k]);
        failed |= MPI_Waitall(work->window, requests, MPI_STATUSES_IGNORE);
        failed |= work->first ? MPI_Recv(&reply, 4, MPI_BYTE, work->partner, reply_tag, work->comm, MPI_STATUS_IGNORE)
                              : MPI_Send(&reply, 4, MPI_BYTE, work->partner, reply_tag, work->comm);
    }
    return failed;
}

static void *run(void *argument)
{
    Work *work = argument;
    int (*loop)(Work *, int) = work->window ? windows : round_trips;
    work->failed = loop(work, work->warm_up);
    pthread_barrier_wait(work->ready);
    double start = MPI_Wtime();
    work->failed |= loop(work, work->iterations);
    work->seconds = MPI_Wtime() - start;
    return NULL;
}

/* Seconds of each thread, for `iterations` round trips (window 0) or windows of messages from the first rank.
 * buffers [threads][stride]; seconds [threads]. Returns 0, or 1 if MPI, a thread or memory failed. */
int message_threads(MPI_Comm *comm, int partner, int first, int threads, char *buffers, int64_t stride, int size,
                    int window, int iterations, int warm_up, double *seconds)
{
    if (window > MAX_WINDOW || threads > MAX_THREADS)
        return 1;
    Work *works = calloc(threads, sizeof *works);
    pthread_t *handles = calloc(threads, sizeof *handles);
    pthread_barrier_t ready;
    if (!works || !handles || pthread_barrier_init(&ready, NULL, threads))
        return 1;
    int failed = 0;
    for (int t = 0; t < threads; t++) {
        works[t] = (Work){*comm, partner, first, t, size, window, iterations, warm_up, 0, buffers + t * stride,
                          &ready, 0.0};
        /* The others would wait for a thread that is missing, and the partner for its messages. */
        if (pthread_create(&handles[t], NULL, run, &works[t]))
            MPI_Abort(*comm, 1);
    }
    for (int t = 0; t < threads; t++) {
        pthread_join(handles[t], NULL);
        failed |= works[t].failed != 0;
        seconds[t] = works[t].seconds;
    }
    pthread_barrier_destroy(&ready);
    free(handles);
    free(works);
    return failed;
}
