/* error.h - the one error object.
 *
 * A function that can fail returns `hx_error *`; NULL is success. Results go to
 * a last parameter named `ret`, which is written only on success. The caller owns
 * a returned error and ends it with hx_error_free() or by passing it upwards.
 * An error becomes one line: `heapx: WHAT: WHY; TODO`.
 */
#ifndef HX_BASE_ERROR_H
#define HX_BASE_ERROR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hx_error_kind {
    HX_E_FAIL,    /* anything without a kind of its own */
    HX_E_USAGE,   /* the words of the call are wrong: exit status 2 */
    HX_E_NOMEM,   /* out of memory */
    HX_E_OS,      /* a system call failed; os_errno says how */
    HX_E_PERM,    /* a permission is missing; todo says what to type */
    HX_E_GONE,    /* the target has exited or replaced itself (exec) */
    HX_E_CANCEL,  /* the user interrupted: exit status 130 */
    HX_E_CORRUPT, /* foreign bytes do not hold what they claim */
    HX_E_ABSENT,  /* there is no such thing (row, symbol, object) */
    HX_E_BUSY,    /* try again later (target in the middle of malloc, store locked) */
    HX_E_LIMIT,   /* larger than heapx takes on; whatever else there is to do can go on */
};

typedef struct hx_error hx_error;
struct hx_error {
    enum hx_error_kind kind;
    int os_errno; /* 0 when no system call was involved */
    char *what;   /* the thing that was worked on: "PID 123", "snapshot.db" */
    char *why;    /* the cause, in words */
    char *todo;   /* what the user can do; may be NULL */
};

/* Makes an error. `todo` may be NULL. Never returns NULL: out of memory gives a
 * static error of kind HX_E_NOMEM. */
hx_error *hx_error_new(enum hx_error_kind kind, const char *what, const char *todo, const char *why,
                       ...) __attribute__((format(printf, 4, 5)));

/* Foreign bytes that lie, HX_E_CORRUPT: why = "at byte OFFSET (0xOFFSET): ...". */
hx_error *hx_error_at(const char *what, const char *todo, uint64_t offset, const char *why,
                      va_list args) __attribute__((format(printf, 4, 0)));

/* What to do about a well-known errno; NULL for the others. */
const char *hx_error_os_todo(int err);

/* The same for a failed system call: why = "CALL: strerror(err)", todo by hx_error_os_todo. */
hx_error *hx_error_os(int err, const char *what, const char *call);

/* The static out-of-memory error. */
hx_error *hx_error_nomem(void);

/* Copies an error that another owner keeps. NULL gives NULL. */
hx_error *hx_error_copy(const hx_error *err);

/* Writes "WHAT: WHY; TODO" without a line end into buf, always terminated,
 * every byte that is unsafe on a terminal escaped. */
void hx_error_line(const hx_error *err, char *buf, size_t size);

/* Frees an error; NULL is legal. */
void hx_error_free(hx_error *err);

/* Returns the error of a call to the caller. */
#define HX_TRY(call)                                                                               \
    do {                                                                                           \
        hx_error *hx_try_error_ = (call);                                                          \
        if (hx_try_error_)                                                                         \
            return hx_try_error_;                                                                  \
    } while (0)

/* Returns out of memory to the caller unless there was some: a pointer that is not NULL, a push or
 * a reserve (vec.h) that succeeded, a text (text.h) that has not failed. */
#define HX_NEED(...)                                                                               \
    do {                                                                                           \
        if (!(__VA_ARGS__))                                                                        \
            return hx_error_nomem();                                                               \
    } while (0)

#endif
