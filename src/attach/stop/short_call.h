/* short_call.h - calls that a stop ended with part of their work done.
 *
 * A call that sleeps and has already moved some bytes (a large write to a full pipe, recv with
 * MSG_WAITALL) answers any wake-up with their number, as it would a signal. What it moved is with
 * the receiver, and only the program can go on behind it: a call begun again would repeat the first
 * part or answer with the length of the second one, and whoever wanted to add the two up would have
 * to be there when it ends. So this is told and not mended, but for random bytes, of which others
 * are as good.
 */
#ifndef HX_ATTACH_STOP_SHORT_CALL_H
#define HX_ATTACH_STOP_SHORT_CALL_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct hx_short_calls {
    uint64_t n;
    char newest[96]; /* "write of thread 12 (4096 of 65536 bytes)" */
};

/* For a thread in its stop in a system call: counts one that came back short, or has it begin again
 * where that does no harm. False: there is nothing to tell. */
bool hx_short_call(pid_t pid, pid_t tid, struct hx_short_calls *calls);

#endif
