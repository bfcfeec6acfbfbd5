/* reader.h - a process that reads the files of a target, so that a fault in what reads them is none
 * of heapx.
 *
 * It is this program, started anew, and has nothing of heapx but what is handed to it: descriptors
 * of files that heapx opened, and a piece of memory for its answers. It runs as a user that nobody
 * is (where heapx is root), with bounds on memory and processor time, and the kernel ends it when
 * it calls anything that this work does not need (sandbox.c). Files that libdw opens by itself are
 * asked of heapx, which opens those only that nobody but the user and root could have made
 * (trusted_file.h). What it answers is copied, then tested (flat.h).
 *
 * Services are functions of this program; each has an HX_READER_SERVICE that calls
 * hx_reader_serve(). A program that was started to be a reader never gets to its main(): where no
 * service has the name, it ends.
 */
#ifndef HX_SYM_READER_READER_H
#define HX_SYM_READER_READER_H

#include "base/error.h"
#include "sym/reader/flat.h"

struct hx_reading;

/* --- heapx's end ------------------------------------------------------------- */

struct hx_reader;

/* What could be had to keep a reader from doing harm. */
enum hx_reader_guard {
    HX_READER_USER = 1,   /* it is a user that nobody is; of no use unless heapx is root */
    HX_READER_CALLS = 2,  /* it can make no other system calls than it needs */
    HX_READER_MEMORY = 4, /* it has bounds on memory */
};

/* Any thread may use it, one at a time. What takes milliseconds is to load the program: where
 * `stem` is not NULL that is done once, by a process that sees no file and becomes readers by fork;
 * *stem is NULL at first, and stopped by the caller. */
struct hx_reader_stem;
hx_error *hx_reader_start(const char *service, struct hx_reader_stem **stem,
                          struct hx_reader **ret);
void hx_reader_stem_stop(struct hx_reader_stem *stem); /* NULL is legal; its readers go on */
void hx_reader_stop(struct hx_reader *reader);         /* at once; NULL is legal */
unsigned hx_reader_guards(const struct hx_reader *reader);

/* Did it ever want to open a file by itself? Then what it answers depends on that, too. */
bool hx_reader_has_asked(const struct hx_reader *reader);

#define HX_READER_FDS 3
struct hx_reader_call {
    uint32_t op;            /* what it means is the service's */
    uint64_t number;        /* as well */
    struct hx_flat words;   /* [0, at): as well */
    int fds[HX_READER_FDS]; /* stay the caller's; 0 or -1: none */
};

/* Waits for the answer, which is valid until the next call. What the reader left out is noted in
 * `reading` under path. HX_E_CANCEL: reading was to end; HX_E_FAIL: the reader has ended, and why.
 * Either way it is no good afterwards but to be stopped. */
hx_error *hx_reader_ask(struct hx_reader *reader, const struct hx_reader_call *call,
                        struct hx_reading *reading, const char *path, struct hx_flat *ret);

/* --- the reader's end -------------------------------------------------------- */

/* One call as the service gets it. The words lie where the answer goes: they are to be used before
 * that is written. Descriptors are closed afterwards. What does not fit into ret is no answer. */
struct hx_reader_work {
    uint32_t op;
    uint64_t number;
    struct hx_flat words;
    int fds[HX_READER_FDS];
    unsigned guards; /* of this reader */
    struct hx_reading *reading;
    struct hx_flat *ret;
};

/* Runs before main(), and before what ends readers without a service. */
#define HX_READER_SERVICE __attribute__((constructor(200)))

/* Where the program was started to be a reader with this service it answers calls, and never
 * returns; else nothing happens. For constructors, which are told the program's arguments. */
void hx_reader_serve(int argc, char **argv, const char *service,
                     void (*answer)(void *context, const struct hx_reader_work *work),
                     void *context);

#endif
