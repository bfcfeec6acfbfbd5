/* console.h - what the person at the terminal sees and says: progress, colour, interrupts. */
#ifndef HX_CLI_CONSOLE_H
#define HX_CLI_CONSOLE_H

#include "base/error.h"
#include "base/progress.h"
#include "base/timing.h"
#include "cli/words/options.h"
#include "store/store.h"

#include <pthread.h>

/* From here on SIGINT, SIGTERM and SIGHUP turn on the cancel flag below instead of ending the
 * process, so that what was complete can be kept. A third one ends it at once. */
void hx_interrupts_catch(void);

/* Interrupts also end the queries that run on this store, with HX_E_CANCEL; NULL: no more. Must
 * be called with NULL before the store is closed. */
void hx_interrupts_end_queries(hx_store *store);

/* Gives the signals their usual effect back. */
void hx_interrupts_release(void);

/* An interrupt that was obeyed: the flag is off until the next one. Which signal it was, 0: none.
 * *ret_sent: a process sent it; else the terminal did, also to what heapx has started. */
int hx_interrupts_forget(bool *ret_sent);

/* Set once the user wants to stop. */
const atomic_bool *hx_interrupted(void);

/* The same, and an interrupt that was obeyed keeps it set. */
const atomic_bool *hx_interrupted_ever(void);

/* Waits until CLOCK_MONOTONIC reaches deadline_ns, the process behind pidfd has ended (-1: not
 * watched) or the user interrupts; *ret_gone: the process has ended. */
hx_error *hx_wait_until(uint64_t deadline_ns, int pidfd, bool *ret_gone);

/* A progress bar on stderr, when that is a terminal that can take one back. */
struct hx_console {
    struct hx_progress progress; /* give this to long work */
    pthread_mutex_t lock;
    bool bar, utf8, shown, whole; /* whole: the course was looked at last */
    struct hx_course course;
    char stage[32]; /* where there is no course */
    uint64_t stage_started_ns, drawn_ns;
};

void hx_console_init(struct hx_console *console);
/* Takes the bar off the screen; call before other output on stderr and at the end. */
void hx_console_clear(struct hx_console *console);

static inline void hx_cleanup_console(struct hx_console *console)
{
    hx_console_clear(console);
}
#define HX_CONSOLE __attribute__((cleanup(hx_cleanup_console)))

/* One line on stderr: "heapx: WHAT: TEXT", bytes that are unsafe on a terminal escaped. */
void hx_say(struct hx_console *console, const char *what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* -1: the explorer decides, 0: never, 1: always; from --color, NO_COLOR and TERM. */
int hx_color(const struct hx_args *args);

/* Can the explorer run here: a terminal on both ends? */
bool hx_has_terminal(void);

#endif
