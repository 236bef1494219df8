/* The tasking primitives of C with POSIX threads and OpenMP, which those of Python are compared with.

   What is measured is described in bench/tasking/measure.py; patterns: Sec. III, Figs. 1 to 5 of Rizvi and Hale, "A Look at
   Communication-Intensive Performance in Julia". Every function writes the seconds of one operation for each trial,
   in order, and returns 0, the number of an error of the system, or WRONG_DATA. */

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#define WRONG_DATA -1
#define NO_OPENMP -2
#define MAX_FIBONACCI 93 /* numbers 0 to 92 fit 63 bits */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- creation (Fig. 1a): pthread_create alone; threads are joined outside the timed part ---- */

static void *mark(void *slot)
{
    *(int64_t *)slot += 1;
    return NULL;
}

/* marks: [operations], each thread adds one to its own. */
int create_threads(int operations, int trials, int64_t *marks, double *seconds)
{
    pthread_t *threads = malloc(operations * sizeof *threads);
    if (!threads)
        return ENOMEM;
    int error = 0;
    for (int trial = 0; trial < trials && !error; trial++) {
        int n = 0;
        double start = now();
        while (n < operations && !(error = pthread_create(&threads[n], NULL, mark, &marks[n])))
            n++;
        seconds[trial] = (now() - start) / operations;
        for (int i = 0; i < n; i++)
            pthread_join(threads[i], NULL);
    }
    free(threads);
    return error;
}

/* ---- switch (Fig. 1b): two threads, on one core by the caller's affinity, yield to each other in turn ---- */

struct turns {
    _Atomic int whose;
    int64_t total, taken;
};

static void *take_turns(void *argument)
{
    struct turns *turns = argument;
    for (; turns->taken < turns->total; turns->taken++) {
        while (atomic_load_explicit(&turns->whose, memory_order_acquire) != 1)
            sched_yield();
        atomic_store_explicit(&turns->whose, 0, memory_order_release);
    }
    return NULL;
}

int switch_threads(int turns_per_trial, int trials, double *seconds)
{
    struct turns turns = {0, (int64_t)turns_per_trial * trials, 0};
    pthread_t partner;
    int error = pthread_create(&partner, NULL, take_turns, &turns);
    if (error)
        return error;
    for (int trial = 0; trial < trials; trial++) {
        double start = now();
        for (int i = 0; i < turns_per_trial; i++) {
            atomic_store_explicit(&turns.whose, 1, memory_order_release);
            while (atomic_load_explicit(&turns.whose, memory_order_acquire) != 0)
                sched_yield();
        }
        seconds[trial] = (now() - start) / (2.0 * turns_per_trial);
    }
    pthread_join(partner, NULL);
    return turns.taken == turns.total ? 0 : WRONG_DATA;
}

/* ---- spawn and fetch (Fig. 2): a pool of workers behind a mutex and condition variables ---- */

struct pool {
    pthread_mutex_t mutex;
    pthread_cond_t work, finished;
    int n, waiting, done, stop; /* n: numbers to compute; waiting: tasks nobody took; done: tasks finished */
    int64_t numbers[MAX_FIBONACCI];
};

static void fibonacci(int n, int64_t *numbers)
{
    for (int i = 0; i < n; i++)
        numbers[i] = i < 2 ? i : numbers[i - 1] + numbers[i - 2];
}

static void *serve(void *argument)
{
    struct pool *pool = argument;
    pthread_mutex_lock(&pool->mutex);
    for (;;) {
        while (!pool->waiting && !pool->stop)
            pthread_cond_wait(&pool->work, &pool->mutex);
        if (pool->stop)
            break;
        pool->waiting--;
        int n = pool->n;
        pthread_mutex_unlock(&pool->mutex);
        fibonacci(n, pool->numbers);
        pthread_mutex_lock(&pool->mutex);
        pool->done++;
        pthread_cond_signal(&pool->finished);
    }
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

/* n: numbers a task computes, 0 for a null task; numbers: [n], those of the last task. spawn: until the task is
   handed over; both: until its result is back. */
int spawn_tasks(int workers, int n, int trials, int64_t *numbers, double *spawn, double *both)
{
    if (n > MAX_FIBONACCI)
        return EINVAL;
    struct pool pool = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, n, 0, 0, 0, {0}};
    pthread_t *threads = malloc(workers * sizeof *threads);
    if (!threads)
        return ENOMEM;
    int error = 0, started = 0;
    while (started < workers && !(error = pthread_create(&threads[started], NULL, serve, &pool)))
        started++;
    for (int trial = 0; trial < trials && !error; trial++) {
        double start = now();
        pthread_mutex_lock(&pool.mutex);
        pool.done = 0;
        pool.waiting = 1;
        pthread_cond_signal(&pool.work);
        pthread_mutex_unlock(&pool.mutex);
        spawn[trial] = now() - start;
        pthread_mutex_lock(&pool.mutex);
        while (!pool.done)
            pthread_cond_wait(&pool.finished, &pool.mutex);
        pthread_mutex_unlock(&pool.mutex);
        both[trial] = now() - start;
    }
    pthread_mutex_lock(&pool.mutex);
    pool.stop = 1;
    pthread_cond_broadcast(&pool.work);
    pthread_mutex_unlock(&pool.mutex);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    free(threads);
    for (int i = 0; i < n; i++)
        numbers[i] = pool.numbers[i];
    return error;
}

/* ---- notification (Fig. 3): from just before the signal until the waiting thread runs ---- */

struct event {
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    int waiting, set, trials;
    double signalled;
};

static void *notify(void *argument)
{
    struct event *event = argument;
    const struct timespec asleep = {0, 50000}; /* so that the waiting thread has left its core */
    for (int trial = 0; trial < event->trials;) {
        pthread_mutex_lock(&event->mutex);
        int waiting = event->waiting && !event->set;
        pthread_mutex_unlock(&event->mutex);
        nanosleep(&asleep, NULL);
        if (!waiting)
            continue;
        pthread_mutex_lock(&event->mutex);
        event->set = 1;
        event->signalled = now();
        pthread_cond_signal(&event->condition);
        pthread_mutex_unlock(&event->mutex);
        trial++;
    }
    return NULL;
}

int notify_thread(int trials, double *seconds)
{
    struct event event = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, trials, 0.0};
    pthread_t thread;
    int error = pthread_create(&thread, NULL, notify, &event);
    if (error)
        return error;
    for (int trial = 0; trial < trials; trial++) {
        pthread_mutex_lock(&event.mutex);
        event.waiting = 1;
        while (!event.set)
            pthread_cond_wait(&event.condition, &event.mutex);
        seconds[trial] = now() - event.signalled;
        event.waiting = event.set = 0;
        pthread_mutex_unlock(&event.mutex);
    }
    pthread_join(thread, NULL);
    return 0;
}

/* ---- channel (Fig. 4): a bounded producer-consumer queue under a mutex ---- */

struct queue {
    pthread_mutex_t mutex;
    pthread_cond_t not_empty, not_full;
    int64_t capacity, first, count, *items;
};

static void queue_put(struct queue *queue, int64_t item)
{
    pthread_mutex_lock(&queue->mutex);
    while (queue->count == queue->capacity)
        pthread_cond_wait(&queue->not_full, &queue->mutex);
    queue->items[(queue->first + queue->count++) % queue->capacity] = item;
    pthread_cond_signal(&queue->not_empty);
    pthread_mutex_unlock(&queue->mutex);
}

static int64_t queue_peek(struct queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    while (!queue->count)
        pthread_cond_wait(&queue->not_empty, &queue->mutex);
    int64_t item = queue->items[queue->first];
    pthread_mutex_unlock(&queue->mutex);
    return item;
}

static int64_t queue_take(struct queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    while (!queue->count)
        pthread_cond_wait(&queue->not_empty, &queue->mutex);
    int64_t item = queue->items[queue->first];
    queue->first = (queue->first + 1) % queue->capacity;
    queue->count--;
    pthread_cond_signal(&queue->not_full);
    pthread_mutex_unlock(&queue->mutex);
    return item;
}

/* In every trial, numbers that no other trial has are put, looked at and taken; all are compared. */
int use_queue(int operations, int trials, double *put, double *peek, double *take)
{
    struct queue queue = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER,
                          operations, 0, 0, NULL};
    queue.items = malloc(operations * sizeof *queue.items);
    if (!queue.items)
        return ENOMEM;
    int64_t wrong = 0;
    for (int trial = 0; trial < trials; trial++) {
        int64_t base = (int64_t)trial * operations;
        double start = now();
        for (int i = 0; i < operations; i++)
            queue_put(&queue, base + i);
        put[trial] = (now() - start) / operations;
        start = now();
        for (int i = 0; i < operations; i++)
            wrong += queue_peek(&queue) != base;
        peek[trial] = (now() - start) / operations;
        start = now();
        for (int i = 0; i < operations; i++)
            wrong += queue_take(&queue) != base + i;
        take[trial] = (now() - start) / operations;
    }
    free(queue.items);
    return wrong ? WRONG_DATA : 0;
}

/* ---- parallel initialisation (Fig. 5): array[i] = trial + 0.5 for all i ---- */

struct part {
    double *array, value;
    int64_t n;
};

static void *fill_part(void *argument)
{
    struct part *part = argument;
    for (int64_t i = 0; i < part->n; i++)
        part->array[i] = part->value;
    return NULL;
}

int fill_threads(double *array, int64_t n, int workers, int trials, double *seconds)
{
    pthread_t *threads = malloc(workers * sizeof *threads);
    struct part *parts = malloc(workers * sizeof *parts);
    int error = threads && parts ? 0 : ENOMEM;
    for (int trial = 0; trial < trials && !error; trial++) {
        int started = 0;
        double start = now();
        for (; started < workers; started++) {
            int64_t low = n * started / workers, high = n * (started + 1) / workers;
            parts[started] = (struct part){array + low, trial + 0.5, high - low};
            if ((error = pthread_create(&threads[started], NULL, fill_part, &parts[started])))
                break;
        }
        for (int i = 0; i < started; i++)
            pthread_join(threads[i], NULL);
        seconds[trial] = now() - start;
    }
    free(threads);
    free(parts);
    return error;
}

/* used: how many threads OpenMP gave. */
int fill_openmp(double *array, int64_t n, int workers, int trials, int *used, double *seconds)
{
#ifdef _OPENMP
    for (int trial = 0; trial < trials; trial++) {
        double start = now(), value = trial + 0.5;
#pragma omp parallel num_threads(workers)
        {
#pragma omp single
            *used = omp_get_num_threads();
#pragma omp for schedule(static)
            for (int64_t i = 0; i < n; i++)
                array[i] = value;
        }
        seconds[trial] = now() - start;
    }
    return 0;
#else
    (void)array, (void)n, (void)workers, (void)trials, (void)used, (void)seconds;
    return NO_OPENMP;
#endif
}
