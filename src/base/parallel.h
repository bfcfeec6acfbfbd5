/* parallel.h - a few threads for one piece of work.
 *
 * For loops over millions of objects, not for waiting: the caller's thread takes
 * part and returns when all is done.
 */
#ifndef HX_BASE_PARALLEL_H
#define HX_BASE_PARALLEL_H

#include "base/error.h"
#include "base/progress.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

#define HX_THREADS_MAX 64

/* The signals that a thread blocks which nobody sends any: all but faults. These are its own, and
 * one that is blocked would end the process past every handler (of a terminal's modes, say). */
void hx_thread_signals(sigset_t *ret);

/* How many workers `asked` means: 0 is one for each processor that this process may
 * use, at most 16. Never 0, never above HX_THREADS_MAX. */
unsigned hx_threads(unsigned asked);

/* The same of 0, but for the processors that others keep busy just now; at least 1. */
unsigned hx_threads_free(void);

/* Calls work(context, i) once for each i in [0, n), n <= HX_THREADS_MAX, 0 on the
 * caller's thread and every other on one of its own, with signals blocked as above. Where
 * a thread cannot be made its call runs on the caller's thread after work 0: so no
 * worker may wait for another one to begin. */
void hx_parallel(unsigned n, void (*work)(void *context, unsigned i), void *context);

/* Work on the things [from, to) of many, by worker i. */
typedef void hx_block_work(void *context, unsigned i, size_t from, size_t to);

/* Does all of [0, n), `block` at a time, with `workers` as above, of which each takes the next
 * block when it is done with one. Ends early once `progress` (NULL is legal) is cancelled. */
void hx_parallel_blocks(unsigned workers, size_t n, size_t block, hx_block_work *work,
                        void *context, const struct hx_progress *progress);

/* Threads that stand by for many short pieces of work, one behind the other: a piece costs a
 * microsecond or two where it follows soon, and not the making of a thread. They sleep after a
 * while. */
struct hx_team;
/* `n` workers, the caller's thread included; where threads cannot be made, fewer. */
hx_error *hx_team_create(unsigned n, struct hx_team **ret);
/* As hx_parallel() does with all workers. */
void hx_team_run(struct hx_team *team, void (*work)(void *context, unsigned i), void *context);
void hx_team_destroy(struct hx_team *team); /* NULL is legal */

/* Work beside the caller's. */
struct hx_aside {
    void (*work)(void *context);
    void *context;
    pthread_t thread;
    bool started;
};

/* Begins it on a thread of its own, with signals blocked as above. */
void hx_aside_begin(void (*work)(void *context), void *context, struct hx_aside *ret);
/* Returns when it is done; where no thread could be made, it is done now. */
void hx_aside_end(struct hx_aside *aside);

/* The same for works that are many and short: the thread is kept from one to the next. Begins as
 * (struct hx_helper)HX_HELPER. */
struct hx_helper {
    void (*work)(void *context); /* NULL: none */
    void *context;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool started, ending;
};
#define HX_HELPER                                                                                  \
    {                                                                                              \
        .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER                    \
    }

/* The work before has ended. */
void hx_helper_begin(struct hx_helper *helper, void (*work)(void *context), void *context);
/* Returns when the work is done; where no thread could be made, it is done now. */
void hx_helper_end(struct hx_helper *helper);
/* Ends the thread: nothing is under way. */
void hx_helper_stop(struct hx_helper *helper);

#endif
