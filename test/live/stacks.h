/* stacks.h - how the program with many stacks and its libraries mark what they allocate.
 *
 * Each marked request has a size of its own, which says what stack it came from (stacks.cc).
 */
#ifndef HX_TEST_STACKS_H
#define HX_TEST_STACKS_H

#include <stddef.h>
#include <stdlib.h>

#define MARK(n) ((size_t)(20007 + 16 * (n))) /* odd, and larger than what libraries ask for */

#define NOINLINE    __attribute__((noinline, noclone))
#define ALWAYS      __attribute__((always_inline)) inline
#define NO_TAILCALL __asm__ volatile("" : : : "memory")

#ifdef __cplusplus
extern "C" {
#endif

void stacks_keep(void *block);

/* of stacks_plugin.cc */
void plugin_lazy(int n);   /* through a procedure linkage table that is bound lazily */
void plugin_resolve(void); /* to a function whose resolver allocates */
void plugin_callback(void (*call)(int), int n);
void *plugin_tls(void);   /* the first use of large thread-local storage */
void plugin_throw(int n); /* throws an exception of MARK(n) bytes with its header */

/* of stacks_stripped.c, which has no symbols but these */
void stripped_direct(int n);
void stripped_deep(int n, int depth);
void stripped_callback(void (*call)(int), int n);

#ifdef __cplusplus
}
#endif

#endif
