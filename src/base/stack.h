/* stack.h - enough stack, whatever the limit (ulimit -s) is.
 *
 * What reads debug information takes some 150 KiB of stack for itself, and a thread's stack is as
 * large as the limit.
 */
#ifndef HX_BASE_STACK_H
#define HX_BASE_STACK_H

/* Calls main on the stack that there is or, where the limit leaves it less than 2 MiB, on memory of
 * 2 MiB, and returns its status. Threads get at least as much from then on. Programs that are
 * executed find the limit as it was. For the first thread, once. */
int hx_stack_run(int (*main)(int argc, char **argv), int argc, char **argv);

#endif
